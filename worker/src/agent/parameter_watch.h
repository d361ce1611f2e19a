// Whether the parameters of this process are still those of its last finished step.
#ifndef DDPRUN_WORKER_SRC_AGENT_PARAMETER_WATCH_H_
#define DDPRUN_WORKER_SRC_AGENT_PARAMETER_WATCH_H_

#include <atomic>

namespace ddp::internal {

// A program that puts ddp::OptimizerStep around optimizer.step() tells when the parameters change.
// For any other program they may change at any time after the gradients were averaged.
//
// Any thread. Only the order of calls on the training thread matters.
class ParameterWatch {
 public:
  // The process's own.
  static ParameterWatch& Process();

  void GradientsAreAveraged() {
    if (!program_tells_) whole_ = false;
  }
  void OptimizerStepBegins() {
    program_tells_ = true;
    whole_ = false;
  }
  void StepIsFinished() { whole_ = true; }
  // Call it when another model may follow.
  void Forget() { whole_ = false; }

  // False: the parameters may be partly those of the next step.
  bool whole() const { return whole_; }

 private:
  std::atomic<bool> program_tells_{false};
  std::atomic<bool> whole_{false};
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_PARAMETER_WATCH_H_
