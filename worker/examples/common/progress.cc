#include "worker/examples/common/progress.h"

#include <ddp/collectives.h>

#include <chrono>
#include <cstdint>
#include <cstdio>

namespace example {
namespace {

constexpr int kLossInterval = 10;  // steps between two averages of the loss over all ranks
constexpr std::chrono::seconds kInterval(1);

}  // namespace

void Progress::Advance(std::int64_t step, std::int64_t epoch, double loss) {
  loss_sum_ += loss;
  if (++loss_count_ < kLossInterval) return;
  const double mean = ddp::all_reduce_mean(ctx_, loss_sum_ / loss_count_);
  loss_sum_ = 0;
  loss_count_ = 0;
  if (ctx_.rank() == 0) Print(step, epoch, mean);
}

void Progress::Print(std::int64_t step, std::int64_t epoch, double loss) {
  steps_left_ -= kLossInterval;
  steps_since_line_ += kLossInterval;
  const auto now = Clock::now();
  if (now - last_line_ < kInterval) return;
  const double seconds = std::chrono::duration<double>(now - last_line_).count();
  const double steps_per_second = static_cast<double>(steps_since_line_) / seconds;
  std::printf("step %lld  epoch %lld  loss %.4f  %.0f samples/s  ETA %.0f s\n",
              static_cast<long long>(step), static_cast<long long>(epoch + 1), loss,
              steps_per_second * static_cast<double>(samples_per_step_),
              static_cast<double>(steps_left_) / steps_per_second);
  std::fflush(stdout);
  last_line_ = now;
  steps_since_line_ = 0;
}

}  // namespace example
