#include "worker/src/data_parallel/compute_time_clock.h"

#include <algorithm>
#include <cstdint>

#include "worker/src/peers/activity.h"

namespace ddp::internal {
namespace {

using std::chrono::nanoseconds;
using Mark = c10d::Timer::Event;

// c10d's timers have a slot for each of these names. Here they mean:
constexpr Mark kBegin = Mark::kBackwardCommEnd;
constexpr Mark kBucket = Mark::kBackwardCommStart;
constexpr Mark kEnd = Mark::kBackwardComputeEnd;
constexpr Mark kBroadcastBegin = Mark::kForwardStart;
constexpr Mark kBroadcastEnd = Mark::kBackwardComputeStart;

// How many steps the host may run ahead of the GPU before it must wait to read a time.
constexpr std::size_t kStepsOfGpu = 4;

nanoseconds Between(c10d::Timer& timer, Mark begin, Mark end) {
  return nanoseconds(timer.measureDifference(begin, end).value_or(0));
}

}  // namespace

ComputeTimeClock::ComputeTimeClock(c10::Device device)
    : on_gpu_(!device.is_cpu()), steps_(on_gpu_ ? kStepsOfGpu : 1) {
  for (Step& step : steps_) step.timer = c10d::TimerRegistry()->Create(device.type(), device);
}

std::optional<nanoseconds> ComputeTimeClock::TimeOf(Step& step, bool on_gpu) {
  if (!step.has_begun || !step.has_bucket) return std::nullopt;
  nanoseconds collectives = step.in_collectives_at_bucket - step.in_collectives_at_begin;
  if (on_gpu) {
    collectives =
        step.has_broadcast ? Between(*step.timer, kBroadcastBegin, kBroadcastEnd) : nanoseconds(0);
  }
  return std::max(Between(*step.timer, kBegin, kBucket) - collectives, nanoseconds(0));
}

std::optional<nanoseconds> ComputeTimeClock::CommunicationEnded() {
  if (Step& ended = steps_[now_]; !on_gpu_ && ended.has_bucket) {
    // The clocks of other models subtract the wait of this backward from their times.
    ended.timer->record(kEnd);
    AddTimeInCollectives(Between(*ended.timer, kBucket, kEnd) -
                         (TimeInCollectives() - ended.in_collectives_at_bucket));
  }
  now_ = (now_ + 1) % steps_.size();
  Step& step = steps_[now_];
  if (step.timer == nullptr) return std::nullopt;  // libtorch has no timer for this device
  const std::optional<nanoseconds> time = TimeOf(step, on_gpu_);
  step.timer->record(kBegin);
  step.has_begun = true;
  step.has_bucket = false;
  step.has_broadcast = false;
  step.in_collectives_at_begin = TimeInCollectives();
  return time;
}

void ComputeTimeClock::FirstBucketReady() {
  Step& step = steps_[now_];
  if (!step.has_begun) return;
  step.timer->record(kBucket);
  step.has_bucket = true;
  step.in_collectives_at_bucket = TimeInCollectives();
}

void ComputeTimeClock::BroadcastBegins() {
  if (on_gpu_ && steps_[now_].has_begun) steps_[now_].timer->record(kBroadcastBegin);
}

void ComputeTimeClock::BroadcastEnded() {
  Step& step = steps_[now_];
  if (!on_gpu_ || !step.has_begun) return;
  step.timer->record(kBroadcastEnd);
  step.has_broadcast = true;
}

void ComputeTimeClock::Skip() { steps_[now_].has_begun = false; }

}  // namespace ddp::internal
