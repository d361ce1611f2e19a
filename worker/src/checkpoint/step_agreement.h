// What the ranks agree on from step to step, without waiting for each other: each says something at
// the end of a step, and learns at the end of the next what the largest of all was.
#ifndef DDPRUN_WORKER_SRC_CHECKPOINT_STEP_AGREEMENT_H_
#define DDPRUN_WORKER_SRC_CHECKPOINT_STEP_AGREEMENT_H_

#include <ddp/context.h>
#include <torch/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>

namespace ddp::internal {

// One thread; the calls are collectives.
class StepAgreement {
 public:
  static constexpr std::size_t kValues = 3;
  using Values = std::array<std::int64_t, kValues>;

  explicit StepAgreement(const Context& ctx) : ctx_(ctx) {}
  // Waits for the last Post(), which every rank has made; not while an exception is unwinding.
  ~StepAgreement();
  StepAgreement(const StepAgreement&) = delete;
  StepAgreement& operator=(const StepAgreement&) = delete;

  // The element-wise maximum over all ranks of what was given in the call before this one, and has
  // travelled since; on the first call zeros. A job of one process gets `mine` at once.
  Values Exchange(const Values& mine);

 private:
  const Context& ctx_;             // the user's; outlives this
  torch::Tensor values_;           // of the all-reduce under way
  std::function<void()> pending_;  // waits for it; null: there is none
  int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_CHECKPOINT_STEP_AGREEMENT_H_
