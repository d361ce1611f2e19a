// Gives a thread a short time slice (worker/contract/time_slice.h) while an object exists.
#ifndef DDPRUN_WORKER_SRC_BASE_TIME_SLICE_H_
#define DDPRUN_WORKER_SRC_BASE_TIME_SLICE_H_

#include <cstdint>
#include <optional>

#include "worker/contract/time_slice.h"

namespace ddp::internal {

using ddprun::TimeSliceOf;

// While this object exists, its thread has the shortest time slice that the scheduler allows.
// Threads that are started meanwhile keep that slice for ever. Create and destroy it on the same
// thread.
//
// For Gloo's threads, which sleep until a message comes, work for some microseconds, and sleep
// again.
class ShortestTimeSlice {
 public:
  ShortestTimeSlice() {
    const std::uint64_t before = TimeSliceOf();
    if (ddprun::SetTimeSlice(ddprun::kShortestTimeSlice)) before_ = before;
  }
  ~ShortestTimeSlice() {
    if (before_.has_value()) ddprun::SetTimeSlice(*before_);
  }
  ShortestTimeSlice(const ShortestTimeSlice&) = delete;
  ShortestTimeSlice& operator=(const ShortestTimeSlice&) = delete;

 private:
  std::optional<std::uint64_t> before_;  // nanoseconds; nullopt: not changed
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_TIME_SLICE_H_
