// The scheduler's time slice of a thread. Threads with a short slice run as soon as they wake.
#ifndef DDPRUN_WORKER_SRC_BASE_TIME_SLICE_H_
#define DDPRUN_WORKER_SRC_BASE_TIME_SLICE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace ddp::internal {

// While this object exists, its thread has the shortest time slice that the scheduler allows.
// Threads that are started meanwhile keep that slice for ever. Create and destroy it on the same
// thread.
//
// For Gloo's threads, which sleep until a message comes, work for some microseconds, and sleep
// again. Since Linux 6.6 a waking thread does not interrupt a computing thread before the end of
// that thread's slice (3 to 4 ms). If every core computes gradients, each step of an all-reduce
// waits that long. Since Linux 6.12 a thread may request its own slice (sched_setattr with
// SCHED_OTHER and a runtime; needs no privilege), and a thread with a shorter slice interrupts. Its
// share of the processor does not change. Older kernels ignore the request.
class ShortestTimeSlice {
 public:
  ShortestTimeSlice();
  ~ShortestTimeSlice();
  ShortestTimeSlice(const ShortestTimeSlice&) = delete;
  ShortestTimeSlice& operator=(const ShortestTimeSlice&) = delete;

 private:
  std::optional<std::uint64_t> before_;  // nanoseconds; nullopt: not changed
};

// The slice of a thread of this process in nanoseconds; `thread` 0 is the calling thread. Returns 0
// if the kernel does not say (before 6.12), or if the policy is not SCHED_OTHER.
std::uint64_t TimeSliceOf(pid_t thread = 0);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_TIME_SLICE_H_
