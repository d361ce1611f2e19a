#include "launcher/os/process/fence_timer.h"

#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "absl/status/status.h"
#include "launcher/os/check.h"

namespace ddprun {
namespace {

using std::chrono::nanoseconds;

nanoseconds BootTime() {
  timespec now{};
  CheckSyscall(::clock_gettime(CLOCK_BOOTTIME, &now), "clock_gettime(CLOCK_BOOTTIME)");
  return std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}

}  // namespace

absl::StatusOr<FenceTimer> FenceTimer::Create() {
  UniqueFd fd(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "timerfd_create");
  return FenceTimer(std::move(fd));
}

void FenceTimer::Set(std::optional<std::chrono::steady_clock::time_point> at) {
  itimerspec spec{};
  if (at) {
    // Read the boot time first: a delay in between makes the fence early, never late.
    const nanoseconds now = BootTime();
    const nanoseconds left = *at - std::chrono::steady_clock::now();
    const nanoseconds when = std::max(now + left, nanoseconds(1));  // 0 would disarm the timer
    spec.it_value.tv_sec = when.count() / 1'000'000'000;
    spec.it_value.tv_nsec = when.count() % 1'000'000'000;
  }
  CheckSyscall(::timerfd_settime(fd_.get(), TFD_TIMER_ABSTIME, &spec, nullptr), "timerfd_settime");
}

bool FenceTimer::Take() {
  std::uint64_t expirations = 0;
  return ::read(fd_.get(), &expirations, sizeof(expirations)) > 0;
}

bool FenceTimer::Pending() const {
  itimerspec left{};
  CheckSyscall(::timerfd_gettime(fd_.get(), &left), "timerfd_gettime");
  return left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0;
}

}  // namespace ddprun
