#include "worker/src/storage/snapshot_schedule.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace ddp::internal {
namespace {

constexpr int kMemory = 16;  // how many steps the mean covers, about

std::int64_t Steps(double time, double step) {
  return std::max<std::int64_t>(1,
                                static_cast<std::int64_t>(std::ceil(time / std::max(step, 1.0))));
}

}  // namespace

void SnapshotSchedule::StepTook(Duration time) {
  step_ += step_ == Duration::zero() ? time : (time - step_) / kMemory;
}

void SnapshotSchedule::SnapshotTook(Duration stall, Duration background) {
  cost_ = stall + background;
}

std::int64_t SnapshotSchedule::steps() const {
  if (every_steps_ > 0) return every_steps_;
  const auto step = static_cast<double>(step_.count());
  if (every_ > Duration::zero()) return Steps(static_cast<double>(every_.count()), step);
  return Steps(static_cast<double>(cost_.count()) / kShare, step);
}

}  // namespace ddp::internal
