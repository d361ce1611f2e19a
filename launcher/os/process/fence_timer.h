// The time from which no worker may run, in the hands of two processes: the agent pushes it forward
// as long as it holds a lease, and the guardian, which shares the timer since its fork, kills the
// workers when it is reached. Neither has to hear of the other for that: an agent that is stopped
// (SIGSTOP), starved or hung does not push, and that is all.
//
// A timerfd on CLOCK_BOOTTIME. The agent's own clock, CLOCK_MONOTONIC, stands still while the
// machine is suspended, and the rendezvous's goes on: an agent that wakes up would believe that it
// has time left. This timer has expired by then.
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
  // Not set. The error is errno's.
  static absl::StatusOr<FenceTimer> Create();
  // From a descriptor that another FenceTimer had before the fork.
  explicit FenceTimer(UniqueFd fd) : fd_(std::move(fd)) {}

  // Replaces the time; nullopt: none. A time that is over is reached at once.
  void Set(std::optional<std::chrono::steady_clock::time_point> at);

  // Readable when the time is reached, until Take() or Set().
  int fd() const { return fd_.get(); }
  // True once for each Set() whose time was reached; never for one that was replaced before.
  bool Take();
  // A time is set and was not reached.
  bool Pending() const;

 private:
  UniqueFd fd_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_FENCE_TIMER_H_
