// The agent's ProcessRunner: a guardian (guardian.h) starts the workers, so that none of their
// processes is left when the agent is killed or the job ends.
//
// PosixProcessRunner's promises for a worker hold here, too, with the guardian as the parent: the
// kernel kills the workers when the guardian ends. In addition, EndOrphans() kills the processes
// that workers left behind.
//
// If the guardian itself is killed, the kernel kills the workers, and their exit statuses are lost.
// Then guardian_pidfd() is readable, and each call that asks the guardian returns Unavailable.
//
// Each call asks the guardian, except SignalGroup and SetFence: it sends a request and waits for
// the reply. This takes about 50 µs, plus the work itself. Spawn takes no longer: the guardian
// replies after the fork and does not wait for the exec. One thread.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_GUARDED_PROCESS_RUNNER_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_GUARDED_PROCESS_RUNNER_H_

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/os/process/fence_timer.h"
#include "launcher/os/process/guardian.h"
#include "launcher/os/process/guardian_protocol.h"
#include "launcher/os/process/process_runner.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

class GuardedProcessRunner final : public ProcessRunner {
 public:
  // Forks the guardian, in about 0.3 ms. Call it before the process has a second thread, and before
  // using a library that does not survive a fork (gRPC). The agent becomes a subreaper, too: if the
  // guardian is killed, the agent ends all its own children, except those of ExcludeChild
  // (child_reaper.h).
  static absl::StatusOr<std::unique_ptr<GuardedProcessRunner>> Start(
      const GuardianOptions& options);

  // Ends all processes below the guardian, then the guardian, and waits for it.
  ~GuardedProcessRunner() override;
  GuardedProcessRunner(const GuardedProcessRunner&) = delete;
  GuardedProcessRunner& operator=(const GuardedProcessRunner&) = delete;

  absl::StatusOr<SpawnedProcess> Spawn(const SpawnRequest& request) override;
  absl::StatusOr<SpawnedProcess> Adopt(pid_t pid) override;
  absl::Status SignalGroup(pid_t pid, int signo) override;
  absl::StatusOr<ExitStatus> Reap(int pidfd) override;
  absl::Status Discard(const SpawnedProcess& process) override;
  // The guardian enforces the fence. A worker killed by the guardian is reaped like any other.
  void SetFence(std::optional<std::chrono::steady_clock::time_point> at) override;
  absl::StatusOr<std::vector<pid_t>> EndOrphans(std::chrono::microseconds limit) override;

  // For the agent's loop: readable once the guardian has ended. Then call Lost().
  int guardian_pidfd() const { return pidfd_.get(); }

  // Call it when the guardian is gone, or when a call returned Unavailable. The guardian's children
  // are now the agent's children: ends them, within at most 2 s, and returns Unavailable with the
  // reason. Idempotent.
  absl::Status Lost();

 private:
  using Type = guardian::Request::Type;

  GuardedProcessRunner(pid_t pid, UniqueFd pidfd, UniqueFd socket, FenceTimer fence);

  // Sends one request and receives its reply. Unavailable: the guardian is lost. Other errors come
  // from the reply.
  absl::StatusOr<guardian::Reply> Call(const guardian::Request& request);
  // For a request that makes a worker.
  absl::StatusOr<SpawnedProcess> TakeProcess(const guardian::Request& request);
  absl::Status DiscardPid(pid_t pid);

  const pid_t pid_;
  const UniqueFd pidfd_;
  UniqueFd socket_;
  FenceTimer fence_;
  std::unordered_map<int, pid_t> workers_;  // by pidfd, until reaped
  std::optional<absl::Status> lost_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_GUARDED_PROCESS_RUNNER_H_
