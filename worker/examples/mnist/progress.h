// The lines in which rank 0 says how the training goes.
#ifndef DDPRUN_WORKER_EXAMPLES_MNIST_PROGRESS_H_
#define DDPRUN_WORKER_EXAMPLES_MNIST_PROGRESS_H_

#include <chrono>
#include <cstdint>

namespace mnist {

// Prints at most about one line a second. One thread.
class Progress {
 public:
  // `steps_left`: until the end of the training. `samples_per_step`: of all ranks together.
  Progress(std::int64_t steps_left, std::int64_t samples_per_step)
      : steps_left_(steps_left), samples_per_step_(samples_per_step) {}

  // `steps` more are done; `loss` is their mean over all ranks.
  void Advance(std::int64_t steps, std::int64_t step, std::int64_t epoch, double loss);

 private:
  using Clock = std::chrono::steady_clock;

  std::int64_t steps_left_;
  const std::int64_t samples_per_step_;
  std::int64_t steps_since_line_ = 0;
  Clock::time_point last_line_ = Clock::now();
};

}  // namespace mnist

#endif  // DDPRUN_WORKER_EXAMPLES_MNIST_PROGRESS_H_
