// The scheduler's time slice of a thread. Threads with a short slice run as soon as they wake.
//
// Since Linux 6.6 a waking thread does not interrupt a computing thread before the end of that
// thread's slice (3 to 4 ms). So on a node whose cores all compute, each message waits that long.
// Since Linux 6.12 a thread may request its own slice (sched_setattr with SCHED_OTHER and a
// runtime; needs no privilege), and a waking thread with a shorter slice interrupts the computing
// thread. The share of the processor that each thread gets does not change. Older kernels ignore
// the request.
//
// Standard library only, header only: shared by the launcher and the worker library.
#ifndef DDPRUN_WORKER_CONTRACT_TIME_SLICE_H_
#define DDPRUN_WORKER_CONTRACT_TIME_SLICE_H_

#include <sched.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>

namespace ddprun {

inline constexpr std::uint64_t kShortestTimeSlice = 100'000;  // ns; the kernel allows no less

namespace internal {

// The first version of struct sched_attr (linux/sched/types.h). That header conflicts with a struct
// of newer C libraries.
struct SchedulerAttributes {
  std::uint32_t size = sizeof(SchedulerAttributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

// False for a thread with another policy: somebody chose that policy on purpose.
inline bool GetAttributes(pid_t thread, SchedulerAttributes* attributes) {
  return syscall(SYS_sched_getattr, thread, attributes, sizeof(*attributes), 0) == 0 &&
         attributes->policy == SCHED_OTHER;
}

}  // namespace internal

// The slice of a thread of this process in nanoseconds; `thread` 0 is the calling thread. Returns 0
// if the kernel does not say (before 6.12), or if the policy is not SCHED_OTHER.
inline std::uint64_t TimeSliceOf(pid_t thread = 0) {
  internal::SchedulerAttributes attributes;
  return internal::GetAttributes(thread, &attributes) ? attributes.runtime : 0;
}

// Sets the slice of the calling thread. False: not possible.
inline bool SetTimeSlice(std::uint64_t nanoseconds) {
  internal::SchedulerAttributes attributes;
  if (!internal::GetAttributes(0, &attributes)) return false;
  attributes.runtime = nanoseconds;
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}

// The calling thread gets the shortest slice. Threads and processes that it starts do not.
inline void RunAsSoonAsWoken() {
  constexpr std::uint64_t kResetOnFork = 1;  // SCHED_FLAG_RESET_ON_FORK
  internal::SchedulerAttributes attributes;
  if (!internal::GetAttributes(0, &attributes)) return;
  attributes.runtime = kShortestTimeSlice;
  attributes.flags |= kResetOnFork;
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_TIME_SLICE_H_
