// The time slice of a thread in the scheduler: threads with a short one run as soon as they wake.
#ifndef DDPRUN_WORKER_SRC_BASE_TIME_SLICE_H_
#define DDPRUN_WORKER_SRC_BASE_TIME_SLICE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace ddp::internal {

// While this lives, its thread has the shortest time slice of the scheduler. Threads that it starts
// keep that slice for good. One thread.
//
// For Gloo's threads, which sleep until a message comes, work for some microseconds, and sleep
// again. Since Linux 6.6 a waking thread does not interrupt a computing one before the end of its
// slice, 3 to 4 ms. If every core computes gradients, each step of an all-reduce waits that long.
// Since 6.12 a thread may request its own slice (sched_setattr with SCHED_OTHER and a runtime;
// needs no privilege), and a thread with a shorter slice interrupts. Its share of the processor
// does not change. Older kernels ignore the request.
class ShortestTimeSlice {
 public:
  ShortestTimeSlice();
  ~ShortestTimeSlice();
  ShortestTimeSlice(const ShortestTimeSlice&) = delete;
  ShortestTimeSlice& operator=(const ShortestTimeSlice&) = delete;

 private:
  std::optional<std::uint64_t> before_;  // nanoseconds; nullopt: not changed
};

// The slice of a thread of this process, or of the calling one, in nanoseconds; 0: the kernel does
// not tell (before 6.12), or the policy is not SCHED_OTHER.
std::uint64_t TimeSliceOf(pid_t thread = 0);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_TIME_SLICE_H_
