// Lets the ranks agree on values, usually without waiting. At the end of a step each rank gives its
// values. At the end of the next step it gets the maximum over all ranks.
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

// One thread only. Each call is a collective.
class StepAgreement {
 public:
  static constexpr std::size_t kValues = 3;
  using Values = std::array<std::int64_t, kValues>;

  explicit StepAgreement(const Context& ctx) : ctx_(ctx) {}
  // Waits for the pending all-reduce, because every rank takes part in it. Does not wait while an
  // exception is unwinding.
  ~StepAgreement();
  StepAgreement(const StepAgreement&) = delete;
  StepAgreement& operator=(const StepAgreement&) = delete;

  // Returns the element-wise maximum, over all ranks, of the values of the previous call; zeros in
  // the first call. In a job of one process, returns `mine`.
  Values Exchange(const Values& mine);

 private:
  const Context& ctx_;             // the user's; outlives this
  torch::Tensor values_;           // of the pending all-reduce
  std::function<void()> pending_;  // waits for that all-reduce; null: none
  int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_CHECKPOINT_STEP_AGREEMENT_H_
