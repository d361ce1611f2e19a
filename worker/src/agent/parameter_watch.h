// Knows whether the parameters of this process are still those of its last finished step.
#ifndef DDPRUN_WORKER_SRC_AGENT_PARAMETER_WATCH_H_
#define DDPRUN_WORKER_SRC_AGENT_PARAMETER_WATCH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

namespace ddp::internal {

// If a program puts ddp::OptimizerStep around optimizer.step(), this object knows when the
// parameters change. In any other program they may change at any time after the gradients were
// averaged.
//
// Any thread may call GradientsAreAveraged(), averages() and whole(). Only the training thread
// calls the other functions.
class ParameterWatch {
 public:
  // The object of this process.
  static ParameterWatch& Process();

  void GradientsAreAveraged() {
    ++averages_;
    if (!program_tells_) whole_ = false;
  }
  // If the function of BeforeOptimizerStep() throws, the parameters stay those of the last step.
  void OptimizerStepBegins() {
    if (before_optimizer_step_) before_optimizer_step_();
    program_tells_ = true;
    whole_ = false;
  }
  void StepIsFinished() { whole_ = true; }
  // From now on OptimizerStepBegins() first calls `function`, until `owner` calls Leave() or
  // another owner takes its place. Training thread only.
  void BeforeOptimizerStep(const void* owner, std::function<void()> function) {
    owner_ = owner;
    before_optimizer_step_ = std::move(function);
  }
  void Leave(const void* owner) {
    if (owner_ == owner) before_optimizer_step_ = nullptr;
  }
  // Call it when training begins, because the model may be a new one.
  void Forget() { whole_ = false; }

  // How often gradients were averaged in this process. Grows equally on all ranks.
  std::uint64_t averages() const { return averages_; }
  // False: some parameters may already be those of the next step.
  bool whole() const { return whole_; }

 private:
  std::atomic<bool> program_tells_{false};
  std::atomic<bool> whole_{false};
  std::atomic<std::uint64_t> averages_{0};
  const void* owner_ = nullptr;
  std::function<void()> before_optimizer_step_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_PARAMETER_WATCH_H_
