// Knows whether the parameters of this process are still those of its last finished step.
#ifndef DDPRUN_WORKER_SRC_AGENT_PARAMETER_WATCH_H_
#define DDPRUN_WORKER_SRC_AGENT_PARAMETER_WATCH_H_

#include <atomic>

namespace ddp::internal {

// If a program puts ddp::OptimizerStep around optimizer.step(), this object knows when the
// parameters change. In any other program they may change at any time after the gradients were
// averaged.
//
// Any thread. Only the order of calls on the training thread matters.
class ParameterWatch {
 public:
  // The object of this process.
  static ParameterWatch& Process();

  void GradientsAreAveraged() {
    if (!program_tells_) whole_ = false;
  }
  void OptimizerStepBegins() {
    program_tells_ = true;
    whole_ = false;
  }
  void StepIsFinished() { whole_ = true; }
  // Call it before training with a model that may be another one.
  void Forget() { whole_ = false; }

  // False: some parameters may already be those of the next step.
  bool whole() const { return whole_; }

 private:
  std::atomic<bool> program_tells_{false};
  std::atomic<bool> whole_{false};
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_PARAMETER_WATCH_H_
