// The ProcessRunner that makes Linux processes.
//
// A worker that it starts
//   - leads a process group of its own, so that its children can be signalled with it;
//   - is killed (SIGKILL) when this process ends, however it ends: in ddprun that is the guardian
//     (guardian.h). The kernel clears this for set-user-ID programs; and a worker's own children do
//     not inherit it;
//   - has /dev/null as stdin, the pipes as stdout and stderr, and no other descriptor;
//   - has no blocked and no ignored signals, even if the agent has some.
//
// Spawn() returns as soon as the child exists. The child finds and executes the program
// (child_process.h), so a slow disk delays only the child.
//
// Needs Linux 5.4.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_POSIX_PROCESS_RUNNER_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_POSIX_PROCESS_RUNNER_H_

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/os/process/process_runner.h"
#include "launcher/os/process/vfork_threads.h"
#include "rendezvous/core/exit_status.h"

namespace ddprun {

// ProcessRunner::SignalGroup, for any process of the same user.
absl::Status SignalProcessGroup(pid_t pid, int signo);

class PosixProcessRunner final : public ProcessRunner {
 public:
  // Resets SIGCHLD if it was ignored at the start: otherwise the kernel would discard the workers'
  // exit statuses.
  PosixProcessRunner();

  absl::StatusOr<SpawnedProcess> Spawn(const SpawnRequest& request) override;
  absl::StatusOr<SpawnedProcess> Adopt(pid_t pid) override;
  absl::Status SignalGroup(pid_t pid, int signo) override;
  absl::StatusOr<ExitStatus> Reap(int pidfd) override;
  // Waits for the end of the process, because no other code would reap it.
  absl::Status Discard(const SpawnedProcess& process) override;
  // Does nothing: no process enforces a fence here.
  void SetFence(std::optional<std::chrono::steady_clock::time_point>) override {}
  // Does nothing. The guardian ends orphans itself (child_reaper.h).
  absl::StatusOr<std::vector<pid_t>> EndOrphans(std::chrono::microseconds limit) override;

 private:
  VforkThreads threads_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_POSIX_PROCESS_RUNNER_H_
