// The agent's ProcessRunner: workers are started by a guardian (guardian.h), so that nothing of
// them is left, neither when the agent is killed nor when the job ends.
//
// What PosixProcessRunner promises for a worker holds, with the guardian in the agent's place: it
// is the parent, and the kernel kills the workers when it ends. On top of that, EndOrphans()
// reaches what workers left behind.
//
// When the guardian itself is killed, the workers are killed by the kernel, and how they ended is
// lost: every call answers Unavailable from then on, and guardian_pidfd() is readable.
//
// Each call is a request to the guardian and its reply, about 50 µs beside the work itself. Spawn
// is no exception: the guardian answers when it has forked, and nobody waits for an exec. Called
// from one thread. SignalGroup does not need the guardian.
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
  // Forks the guardian, about 0.3 ms. Before the process has a second thread, and before anything
  // that minds a fork (gRPC). The agent becomes a subreaper too, for when the guardian is killed:
  // then every child of this process is ended, but for those of ExcludeChild (child_reaper.h).
  static absl::StatusOr<std::unique_ptr<GuardedProcessRunner>> Start(
      const GuardianOptions& options);

  // Ends what is left below the guardian, and the guardian, and waits for it.
  ~GuardedProcessRunner() override;
  GuardedProcessRunner(const GuardedProcessRunner&) = delete;
  GuardedProcessRunner& operator=(const GuardedProcessRunner&) = delete;

  absl::StatusOr<SpawnedProcess> Spawn(const SpawnRequest& request) override;
  absl::StatusOr<SpawnedProcess> Adopt(pid_t pid) override;
  absl::Status SignalGroup(pid_t pid, int signo) override;
  absl::StatusOr<ExitStatus> Reap(int pidfd) override;
  absl::Status Discard(const SpawnedProcess& process) override;
  // By the guardian. A worker that it has killed ends as any other does.
  void SetFence(std::optional<std::chrono::steady_clock::time_point> at) override;
  absl::StatusOr<std::vector<pid_t>> EndOrphans(std::chrono::microseconds limit) override;

  // For the agent's loop: readable when the guardian has ended. Then call Lost().
  int guardian_pidfd() const { return pidfd_.get(); }

  // The guardian is gone: ends everything that fell to the agent by that, for at most 2 s, and
  // returns an Unavailable that says so. Also where a call has failed so; idempotent.
  absl::Status Lost();

 private:
  using Type = guardian::Request::Type;

  GuardedProcessRunner(pid_t pid, UniqueFd pidfd, UniqueFd socket, FenceTimer fence);

  // One request and its reply. Unavailable: the guardian is lost. Any other error is the reply's.
  absl::StatusOr<guardian::Reply> Call(const guardian::Request& request);
  // Of a request that makes a worker.
  absl::StatusOr<SpawnedProcess> TakeProcess(const guardian::Request& request);
  absl::Status DiscardPid(pid_t pid);

  const pid_t pid_;
  const UniqueFd pidfd_;
  UniqueFd socket_;
  FenceTimer fence_;
  std::unordered_map<int, pid_t> workers_;  // by pidfd; until collected
  std::optional<absl::Status> lost_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_GUARDED_PROCESS_RUNNER_H_
