#include "launcher/os/process/guardian.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/os/check.h"
#include "launcher/os/process/child_reaper.h"
#include "launcher/os/process/close_descriptors.h"
#include "launcher/os/process/fence_timer.h"
#include "launcher/os/process/guardian_protocol.h"
#include "launcher/os/process/posix_process_runner.h"
#include "launcher/os/process/process_title.h"
#include "worker/contract/time_slice.h"

namespace ddprun {
namespace {

using guardian::Reply;
using guardian::Request;

// The limit after the agent's death. A process that stays longer cannot be ended.
constexpr std::chrono::seconds kEndLimit{2};

// Keeps 2 open; 0 and 1 become /dev/null. So the guardian reads no terminal, and does not keep the
// agent's stdout open.
void LetGoOfStdio() {
  const bool has_stderr = ::fcntl(2, F_GETFD) >= 0;
  const int opened = CheckSyscall(::open("/dev/null", O_RDWR | O_CLOEXEC), "open /dev/null");
  const int null = ::fcntl(opened, F_DUPFD_CLOEXEC, 3);  // `opened` may itself be 0, 1 or 2
  ::dup2(null, 0);
  ::dup2(null, 1);
  if (!has_stderr) ::dup2(null, 2);
}

// The text is lost if the reader of stderr does not read. Blocks if stderr is a file on a disk that
// does not answer.
void TryToSay(const std::string& text) {
  pollfd writable{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&writable, 1, 0) != 1 || (writable.revents & POLLOUT) == 0) return;
  [[maybe_unused]] const ssize_t size = ::write(STDERR_FILENO, text.data(), text.size());
}

// For a guardian that continues: a separate thread waits for stderr.
void SayBeside(std::string text) {
#ifdef __SANITIZE_THREAD__
  TryToSay(text);  // TSan: a forked process cannot start threads
#else
  try {
    std::thread([text = std::move(text)] {
      pollfd writable{STDERR_FILENO, POLLOUT, 0};
      while (::poll(&writable, 1, -1) < 0 && errno == EINTR) continue;
      [[maybe_unused]] const ssize_t size = ::write(STDERR_FILENO, text.data(), text.size());
    }).detach();
  } catch (const std::system_error&) {
    // No thread could be started: the text is lost.
  }
#endif
}

class Guardian {
 public:
  Guardian(UniqueFd socket, FenceTimer fence, pid_t agent)
      : socket_(std::move(socket)), agent_(agent), fence_(std::move(fence)) {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    child_signals_.reset(
        CheckSyscall(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd"));
  }

  // Returns when the agent is gone without a kEnd request.
  void Serve() {
    pollfd watched[3] = {
        {socket_.get(), POLLIN, 0}, {child_signals_.get(), POLLIN, 0}, {fence_.fd(), POLLIN, 0}};
    for (;;) {
      if (::poll(watched, 3, -1) < 0 && errno != EINTR) DieWithErrno("poll");
      if (watched[2].revents != 0 && fence_.Take()) EndWorkers();
      if (watched[1].revents != 0) {
        signalfd_siginfo info;
        while (::read(child_signals_.get(), &info, sizeof(info)) > 0) continue;
        ReapEndedChildren(workers_);
      }
      if (watched[0].revents == 0) continue;
      absl::StatusOr<Request> request = guardian::ReceiveRequest(socket_.get());
      if (!request.ok()) return;
      const Reply reply = Answer(*request);
      const bool sent = guardian::Send(socket_.get(), reply).ok();
      if (request->type == Request::Type::kEnd) ::_exit(0);
      if (!sent) return;
    }
  }

  std::vector<pid_t> EndEverything(std::chrono::microseconds limit) {
    for (const pid_t pid : workers_) runner_.SignalGroup(pid, SIGKILL).IgnoreError();
    return EndChildren({}, limit);
  }

  // The fence was reached. The workers stay zombies until the agent reaps them.
  void EndWorkers() {
    fenced_ = true;
    if (workers_.empty()) return;
    for (const pid_t pid : workers_) runner_.SignalGroup(pid, SIGKILL).IgnoreError();
    const auto deadline = std::chrono::steady_clock::now() + kEndLimit;
    const auto left = [&] {
      return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(
                          deadline - std::chrono::steady_clock::now()),
                      std::chrono::milliseconds(0));
    };
    // The children of a dead worker become the guardian's.
    for (const pid_t pid : workers_) {
      const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
      pollfd ended{pidfd.get(), POLLIN, 0};
      if (pidfd.valid()) ::poll(&ended, 1, static_cast<int>(left().count()));
    }
    EndChildren(workers_, left());
    SayBeside(absl::StrCat("ddprun: the agent (pid ", agent_,
                           ") has not renewed its lease in time; its ", workers_.size(),
                           " workers are killed\n"));
  }

  std::size_t worker_count() const { return workers_.size(); }
  pid_t agent() const { return agent_; }

 private:
  Reply Answer(const Request& request) {
    Reply reply;
    switch (request.type) {
      case Request::Type::kSpawn:
        Take([&] { return runner_.Spawn(request.spawn); }, &reply);
        break;
      case Request::Type::kAdopt:
        Take([&] { return Adopt(request.pid); }, &reply);
        break;
      case Request::Type::kReap:
        reply.status = Reap(request.pid, &reply.exit);
        break;
      case Request::Type::kDiscard:
        if (workers_.erase(request.pid) == 0) break;
        runner_.SignalGroup(request.pid, SIGKILL).IgnoreError();
        ReapEndedChildren(workers_);  // it may have ended before, and no further signal would come
        break;
      case Request::Type::kEndOrphans:
        reply.left = EndChildren(workers_, request.limit);
        break;
      case Request::Type::kEnd:
        reply.left = EndEverything(request.limit);
        break;
    }
    return reply;
  }

  // The process is a worker from now on.
  void Take(const std::function<absl::StatusOr<SpawnedProcess>()>& make, Reply* reply) {
    if (fence_.Take()) EndWorkers();
    if (fenced_ && fence_.Pending()) fenced_ = false;
    if (fenced_) {  // no process may run after the fence, however briefly
      reply->status = absl::DeadlineExceededError("the agent has not renewed its lease in time");
      return;
    }
    auto process = make();
    reply->status = process.status();
    if (!process.ok()) return;
    reply->process = *std::move(process);
    workers_.insert(reply->process.pid);
  }

  absl::StatusOr<SpawnedProcess> Adopt(pid_t pid) {
    if (!workers_.contains(pid)) return runner_.Adopt(pid);
    return absl::NotFoundError(absl::StrCat("process ", pid, " is a worker already"));
  }

  absl::Status Reap(pid_t pid, ExitStatus* exit) {
    if (!workers_.contains(pid)) {
      return absl::NotFoundError(absl::StrCat("process ", pid, " is no worker"));
    }
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd.valid()) return absl::ErrnoToStatus(errno, "pidfd_open");
    const absl::StatusOr<ExitStatus> status = runner_.Reap(pidfd.get());
    if (!status.ok()) return status.status();
    workers_.erase(pid);
    *exit = *status;
    return absl::OkStatus();
  }

  const UniqueFd socket_;
  const pid_t agent_;
  UniqueFd child_signals_;
  FenceTimer fence_;     // the agent sets it
  bool fenced_ = false;  // the fence was reached and not set again
  PosixProcessRunner runner_;
  std::set<pid_t> workers_;  // started and not reaped, so their pids are not reused
};

}  // namespace

void RunGuardian(UniqueFd socket, int fence, pid_t agent, const GuardianOptions& options) {
  // Ctrl-C and Ctrl-Z go to the terminal's foreground group, the agent's.
  ::setpgid(0, 0);
  BecomeSubreaper();
  ::prctl(PR_SET_NAME, "ddprun-guardian", 0, 0, 0);
  RunAsSoonAsWoken();  // the agent waits for its answers
  SetProcessTitle(absl::StrCat("ddprun-guardian of ", agent));
  const int fd = CheckSyscall(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 3), "fcntl(F_DUPFD)");
  socket.reset();
  const int timer = CheckSyscall(::fcntl(fence, F_DUPFD_CLOEXEC, 3), "fcntl(F_DUPFD)");
  LetGoOfStdio();
  CloseDescriptorsBut({std::min(fd, timer), std::max(fd, timer)});

  Guardian guardian(UniqueFd(fd), FenceTimer(UniqueFd(timer)), agent);
  guardian.Serve();

  const std::size_t workers = guardian.worker_count();
  const std::vector<pid_t> left = guardian.EndEverything(kEndLimit);
  if (options.on_agent_killed) options.on_agent_killed(left);
  TryToSay(absl::StrCat(
      "ddprun: the agent (pid ", agent, ") was killed; ",
      left.empty()
          ? absl::StrCat("its ", workers, " workers and all their processes were killed")
          : absl::StrCat("these processes could not be ended: ", absl::StrJoin(left, ", ")),
      "\n"));
  ::_exit(0);
}

}  // namespace ddprun
