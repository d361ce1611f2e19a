// The real ProcessRunner: Linux processes.
//
// A worker that it starts
//   - leads a process group of its own, so that its children can be signalled with it;
//   - is killed (SIGKILL) when this process ends, however it ends: in ddprun that is the guardian
//     (guardian.h). The kernel clears this for set-user-ID programs; and a worker's own children do
//     not inherit it;
//   - has /dev/null as stdin, the pipes as stdout and stderr, and no other descriptor;
//   - has no blocked and no ignored signals, whatever the agent has.
//
// Spawn() returns as soon as there is a child; looking for the program and executing it is the
// child's (child_process.h), however long the disk takes.
//
// Needs Linux 5.4. Output pipes are 1 MiB where the system's limits allow.
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

// ProcessRunner::SignalGroup, for any caller of the same user.
absl::Status SignalProcessGroup(pid_t pid, int signo);

class PosixProcessRunner final : public ProcessRunner {
 public:
  // Un-ignores SIGCHLD, should the agent have been started with it ignored: the kernel would
  // throw away the workers' exit statuses.
  PosixProcessRunner();

  absl::StatusOr<SpawnedProcess> Spawn(const SpawnRequest& request) override;
  absl::StatusOr<SpawnedProcess> Adopt(pid_t pid) override;
  absl::Status SignalGroup(pid_t pid, int signo) override;
  absl::StatusOr<ExitStatus> Reap(int pidfd) override;
  // Waits for its end: nobody else would collect it.
  absl::Status Discard(const SpawnedProcess& process) override;
  // Nobody is there to keep it: does nothing.
  void SetFence(std::optional<std::chrono::steady_clock::time_point>) override {}
  // Nothing falls to a process that is no subreaper: finds nothing.
  absl::StatusOr<std::vector<pid_t>> EndOrphans(std::chrono::microseconds limit) override;

 private:
  VforkThreads threads_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_POSIX_PROCESS_RUNNER_H_
