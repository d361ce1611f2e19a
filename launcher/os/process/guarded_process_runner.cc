#include "launcher/os/process/guarded_process_runner.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/os/process/block_signals.h"
#include "launcher/os/process/child_reaper.h"
#include "launcher/os/process/posix_process_runner.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

// A guardian without an answer for this time is stopped or stuck, and is given up.
constexpr milliseconds kAnswerLimit{10'000};
// The limit at the end: normally no process is left, and a remaining one had its time before.
constexpr milliseconds kOwnEndLimit{200};
constexpr std::chrono::seconds kLostLimit{2};

// Waits for the child at most `limit`, then kills it. Returns in words how it ended.
std::string Collect(pid_t pid, int pidfd, milliseconds limit) {
  pollfd ended{pidfd, POLLIN, 0};
  const bool in_time = ::poll(&ended, 1, static_cast<int>(limit.count())) == 1;
  if (!in_time) ::kill(pid, SIGKILL);
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED) != 0 && errno == EINTR) continue;
  if (!in_time) return "did not answer";
  if (info.si_code == CLD_EXITED) return absl::StrCat("ended with code ", info.si_status);
  return absl::StrCat("was killed by ", SignalName(info.si_status));
}

}  // namespace

absl::StatusOr<std::unique_ptr<GuardedProcessRunner>> GuardedProcessRunner::Start(
    const GuardianOptions& options) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a socket for the guardian");
  }
  UniqueFd ours(ends[0]);
  UniqueFd its(ends[1]);
  auto fence = FenceTimer::Create();
  if (!fence.ok()) return fence.status();
  BecomeSubreaper();
  const pid_t agent = ::getpid();
  // No signal may reach the guardian before it has blocked all.
  const BlockAllSignals blocked;
  const pid_t pid = ::fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "cannot start the guardian");
  if (pid == 0) {
    ours.reset();
    RunGuardian(std::move(its), fence->fd(), agent, options);
  }
  ::setpgid(pid, pid);  // also here: parent or child may be first
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) {
    const int error = errno;
    ours.reset();  // the guardian then ends
    ::waitpid(pid, nullptr, 0);
    return absl::ErrnoToStatus(error, "cannot watch the guardian");
  }
  return std::unique_ptr<GuardedProcessRunner>(
      new GuardedProcessRunner(pid, std::move(pidfd), std::move(ours), *std::move(fence)));
}

GuardedProcessRunner::GuardedProcessRunner(pid_t pid, UniqueFd pidfd, UniqueFd socket,
                                           FenceTimer fence)
    : pid_(pid), pidfd_(std::move(pidfd)), socket_(std::move(socket)), fence_(std::move(fence)) {}

GuardedProcessRunner::~GuardedProcessRunner() {
  if (lost_) return;
  guardian::Request request{};
  request.type = Type::kEnd;
  request.limit = kOwnEndLimit;
  if (Call(request).ok()) Collect(pid_, pidfd_.get(), kAnswerLimit);
}

absl::StatusOr<guardian::Reply> GuardedProcessRunner::Call(const guardian::Request& request) {
  if (lost_) return *lost_;
  if (!guardian::Send(socket_.get(), request).ok()) return Lost();
  absl::StatusOr<guardian::Reply> reply = guardian::ReceiveReply(socket_.get(), kAnswerLimit);
  if (!reply.ok()) return Lost();
  // Unavailable must only mean that the guardian is lost.
  if (absl::IsUnavailable(reply->status)) {
    return absl::ResourceExhaustedError(reply->status.message());
  }
  if (!reply->status.ok()) return reply->status;
  return reply;
}

absl::StatusOr<SpawnedProcess> GuardedProcessRunner::Spawn(const SpawnRequest& spawn) {
  guardian::Request request{};
  request.type = Type::kSpawn;
  request.spawn = spawn;
  return TakeProcess(request);
}

absl::StatusOr<SpawnedProcess> GuardedProcessRunner::Adopt(pid_t pid) {
  guardian::Request request{};
  request.type = Type::kAdopt;
  request.pid = pid;
  return TakeProcess(request);
}

absl::StatusOr<SpawnedProcess> GuardedProcessRunner::TakeProcess(const guardian::Request& request) {
  absl::StatusOr<guardian::Reply> reply = Call(request);
  if (!reply.ok()) return reply.status();
  if (!reply->process.pidfd.valid()) {
    if (absl::Status discarded = DiscardPid(reply->process.pid); !discarded.ok()) return discarded;
    return absl::ResourceExhaustedError(
        "cannot take a worker's output: the agent has no descriptors left (ulimit -n)");
  }
  workers_[reply->process.pidfd.get()] = reply->process.pid;
  return std::move(reply->process);
}

absl::Status GuardedProcessRunner::SignalGroup(pid_t pid, int signo) {
  return SignalProcessGroup(pid, signo);
}

void GuardedProcessRunner::SetFence(std::optional<std::chrono::steady_clock::time_point> at) {
  fence_.Set(at);
}

absl::StatusOr<ExitStatus> GuardedProcessRunner::Reap(int pidfd) {
  const auto worker = workers_.find(pidfd);
  if (worker == workers_.end()) return absl::NotFoundError("no worker has this descriptor");
  guardian::Request request{};
  request.type = Type::kReap;
  request.pid = worker->second;
  const absl::StatusOr<guardian::Reply> reply = Call(request);
  if (!reply.ok()) return reply.status();
  workers_.erase(worker);
  return reply->exit;
}

absl::Status GuardedProcessRunner::Discard(const SpawnedProcess& process) {
  workers_.erase(process.pidfd.get());
  return DiscardPid(process.pid);
}

absl::Status GuardedProcessRunner::DiscardPid(pid_t pid) {
  guardian::Request request{};
  request.type = Type::kDiscard;
  request.pid = pid;
  return Call(request).status();
}

absl::StatusOr<std::vector<pid_t>> GuardedProcessRunner::EndOrphans(
    std::chrono::microseconds limit) {
  guardian::Request request{};
  request.type = Type::kEndOrphans;
  request.limit = limit;
  absl::StatusOr<guardian::Reply> reply = Call(request);
  if (!reply.ok()) return reply.status();
  return std::move(reply->left);
}

absl::Status GuardedProcessRunner::Lost() {
  if (lost_) return *lost_;
  socket_.reset();
  const std::string how = Collect(pid_, pidfd_.get(), milliseconds(100));
  for (const auto& [pidfd, pid] : workers_) SignalProcessGroup(pid, SIGKILL).IgnoreError();
  const std::vector<pid_t> left = EndChildren({}, kLostLimit);
  std::string reason = absl::StrCat("the guardian (pid ", pid_, ") ", how,
                                    "; its workers ended with it, and this node leaves the job");
  if (!left.empty()) {
    absl::StrAppend(&reason, "; processes that could not be ended: ", absl::StrJoin(left, ", "));
  }
  lost_ = absl::UnavailableError(reason);
  return *lost_;
}

}  // namespace ddprun
