// The scheduler's time slice of a thread: threads with a short one run as soon as they wake up.
#ifndef DDPRUN_WORKER_SRC_BASE_TIME_SLICE_H_
#define DDPRUN_WORKER_SRC_BASE_TIME_SLICE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace ddp::internal {

// While this lives, its thread has the shortest time slice of the scheduler, and so have, for good,
// the threads that it starts. One thread.
//
// It is for Gloo's threads, which sleep until a message comes, work for some microseconds, and
// sleep again. Since Linux 6.6 a thread that wakes up does not interrupt one that computes before
// that one's slice is over, 3 to 4 ms; where every core computes gradients, that is what each step
// of an all-reduce waits for. From 6.12 on, a thread may ask for a slice of its own (sched_setattr
// with SCHED_OTHER and a runtime; needs no privilege), and one with a shorter slice interrupts. Its
// share of the processor is the same as before. Older kernels ignore the wish.
class ShortestTimeSlice {
 public:
  ShortestTimeSlice();
  ~ShortestTimeSlice();
  ShortestTimeSlice(const ShortestTimeSlice&) = delete;
  ShortestTimeSlice& operator=(const ShortestTimeSlice&) = delete;

 private:
  std::optional<std::uint64_t> before_;  // nanoseconds; nothing where nothing was changed
};

// The slice of a thread of this process, or of the calling one, in nanoseconds; 0 where the kernel
// does not tell (before 6.12), or the thread has another policy than SCHED_OTHER.
std::uint64_t TimeSliceOf(pid_t thread = 0);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_TIME_SLICE_H_
