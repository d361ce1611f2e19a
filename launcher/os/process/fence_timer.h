// The time from which no worker is allowed to run. Agent and guardian share the timer from the
// guardian's fork on. The agent moves the time forward while it holds a lease; the guardian kills
// the workers when the time is reached. No message is needed for this: an agent that is stopped
// (SIGSTOP), gets no CPU or hangs does not move the time.
//
// It is a timerfd on CLOCK_BOOTTIME, which goes on while the machine is suspended. The agent's
// clock, CLOCK_MONOTONIC, stops meanwhile, but the rendezvous's clock does not. So after a
// suspension the agent would believe that its lease still holds, but this timer has expired.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_FENCE_TIMER_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_FENCE_TIMER_H_

#include <chrono>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

class FenceTimer {
 public:
  // Makes a timer that is not set. On failure the status has the errno.
  static absl::StatusOr<FenceTimer> Create();
  // Takes over the descriptor of a FenceTimer that was made before the fork.
  explicit FenceTimer(UniqueFd fd) : fd_(std::move(fd)) {}

  // Replaces the time; nullopt: none. A past time is reached at once.
  void Set(std::optional<std::chrono::steady_clock::time_point> at);

  // Readable when the time is reached, until Take() or Set().
  int fd() const { return fd_.get(); }
  // True once for each Set() whose time was reached; never for a replaced time.
  bool Take();
  // True if a time is set and not reached yet.
  bool Pending() const;

 private:
  UniqueFd fd_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_FENCE_TIMER_H_
