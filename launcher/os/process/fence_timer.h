// The time from which no worker may run. Agent and guardian share the timer since the guardian's
// fork. The agent moves the time forward while it holds a lease; the guardian kills the workers
// when the time is reached. This needs no message: an agent that is stopped (SIGSTOP), starved or
// hung simply does not move the time.
//
// It is a timerfd on CLOCK_BOOTTIME. The agent's clock, CLOCK_MONOTONIC, stops while the machine is
// suspended, but the rendezvous's clock does not: after the suspension the agent would believe that
// its lease still holds. This timer has expired by then.
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
  // A timer that is not set. The error is errno's.
  static absl::StatusOr<FenceTimer> Create();
  // Takes over the descriptor of a FenceTimer from before the fork.
  explicit FenceTimer(UniqueFd fd) : fd_(std::move(fd)) {}

  // Replaces the time; nullopt: none. A past time is reached at once.
  void Set(std::optional<std::chrono::steady_clock::time_point> at);

  // Readable when the time is reached, until Take() or Set().
  int fd() const { return fd_.get(); }
  // True once for each Set() whose time was reached; never for a replaced time.
  bool Take();
  // A time is set and not reached yet.
  bool Pending() const;

 private:
  UniqueFd fd_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_FENCE_TIMER_H_
