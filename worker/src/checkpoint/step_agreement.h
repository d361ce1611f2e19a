// An agreement of the ranks in each step without waiting: each rank gives values at the end of a
// step and gets the maximum over all ranks at the end of the next step.
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
  // Waits for the pending all-reduce, in which every rank takes part; does not wait while an
  // exception is unwinding.
  ~StepAgreement();
  StepAgreement(const StepAgreement&) = delete;
  StepAgreement& operator=(const StepAgreement&) = delete;

  // The element-wise maximum over all ranks of the values given in the previous call; zeros on the
  // first call. A job of one process gets `mine` at once.
  Values Exchange(const Values& mine);

 private:
  const Context& ctx_;             // the user's; outlives this
  torch::Tensor values_;           // of the pending all-reduce
  std::function<void()> pending_;  // waits for it; null: none
  int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_CHECKPOINT_STEP_AGREEMENT_H_
