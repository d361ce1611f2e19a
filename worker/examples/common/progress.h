// The progress lines of rank 0.
#ifndef DDPRUN_WORKER_EXAMPLES_COMMON_PROGRESS_H_
#define DDPRUN_WORKER_EXAMPLES_COMMON_PROGRESS_H_

#include <ddp/context.h>

#include <chrono>
#include <cstdint>

namespace example {

// Prints about one line per second at most. Every rank has one object; only one thread may use it.
class Progress {
 public:
  // `ctx` must outlive this object. `steps_left` is the number of steps until the end of the
  // training. `samples_per_step` counts the samples of all ranks.
  Progress(const ddp::Context& ctx, std::int64_t steps_left, std::int64_t samples_per_step)
      : ctx_(ctx), steps_left_(steps_left), samples_per_step_(samples_per_step) {}

  // Call it when a step is finished. `loss` is the loss of this rank. Every tenth call is a
  // collective, which averages the losses over all ranks.
  void Advance(std::int64_t step, std::int64_t epoch, double loss);

 private:
  using Clock = std::chrono::steady_clock;

  void Print(std::int64_t step, std::int64_t epoch, double loss);

  const ddp::Context& ctx_;
  std::int64_t steps_left_;
  const std::int64_t samples_per_step_;
  double loss_sum_ = 0;  // since the last average over all ranks
  int loss_count_ = 0;
  std::int64_t steps_since_line_ = 0;
  Clock::time_point last_line_ = Clock::now();
};

}  // namespace example

#endif  // DDPRUN_WORKER_EXAMPLES_COMMON_PROGRESS_H_
