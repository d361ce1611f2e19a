// Whether the parameters of this process are those of the step that it has finished last.
#ifndef DDPRUN_WORKER_SRC_AGENT_PARAMETER_WATCH_H_
#define DDPRUN_WORKER_SRC_AGENT_PARAMETER_WATCH_H_

#include <atomic>

namespace ddp::internal {

// A program that puts ddp::OptimizerStep around optimizer.step() says when they change. Of another
// one it is only known that they do at some time after the gradients were averaged.
//
// Any thread; it is the order of what one thread does that counts, the one that trains.
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
  // Another model may follow.
  void Forget() { whole_ = false; }

  // Else they may be half of the next step.
  bool whole() const { return whole_; }

 private:
  std::atomic<bool> program_tells_{false};
  std::atomic<bool> whole_{false};
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_PARAMETER_WATCH_H_
