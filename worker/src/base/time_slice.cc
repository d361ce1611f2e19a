#include "worker/src/base/time_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace ddp::internal {
namespace {

constexpr std::uint64_t kShortest = 100'000;  // nanoseconds; the kernel allows no less

// The first version of struct sched_attr (linux/sched/types.h). That header conflicts with a struct
// of newer C libraries.
struct Attributes {
  std::uint32_t size = sizeof(Attributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

// False for a thread with another policy: somebody chose that policy on purpose.
bool Get(pid_t thread, Attributes* attributes) {
  return syscall(SYS_sched_getattr, thread, attributes, sizeof(*attributes), 0) == 0 &&
         attributes->policy == SCHED_OTHER;
}

bool SetSlice(std::uint64_t nanoseconds) {
  Attributes attributes;
  if (!Get(0, &attributes)) return false;
  attributes.runtime = nanoseconds;
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}

}  // namespace

std::uint64_t TimeSliceOf(pid_t thread) {
  Attributes attributes;
  return Get(thread, &attributes) ? attributes.runtime : 0;
}

ShortestTimeSlice::ShortestTimeSlice() {
  const std::uint64_t before = TimeSliceOf();
  if (SetSlice(kShortest)) before_ = before;
}

ShortestTimeSlice::~ShortestTimeSlice() {
  if (before_.has_value()) SetSlice(*before_);
}

}  // namespace ddp::internal
