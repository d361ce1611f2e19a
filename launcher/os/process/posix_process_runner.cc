#include "launcher/os/process/posix_process_runner.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launcher/os/output/output_pipe.h"
#include "launcher/os/process/child_process.h"

namespace ddprun {
namespace {

void WaitFor(int pidfd) {
  siginfo_t info;
  while (::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED) != 0 && errno == EINTR) {
  }
}

absl::Status ExplainForkFailure(const std::string& program, const absl::Status& status) {
  if (absl::IsUnavailable(status)) {  // EAGAIN
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot start ", program, ": no more processes (ulimit -u, or the cgroup's pids.max)"));
  }
  return absl::Status(status.code(),
                      absl::StrCat("cannot start ", program, ": ", status.message()));
}

}  // namespace

PosixProcessRunner::PosixProcessRunner() {
  struct sigaction action;
  if (::sigaction(SIGCHLD, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) {
    action.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &action, nullptr);
  }
}

absl::StatusOr<SpawnedProcess> PosixProcessRunner::Spawn(const SpawnRequest& request) {
  absl::StatusOr<ChildProgram> prepared = ChildProgram::Prepare(request);
  if (!prepared.ok()) return prepared.status();
  UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return absl::ErrnoToStatus(errno, "cannot open /dev/null");
  if (absl::Status moved = MoveAboveStdio(&null); !moved.ok()) return moved;
  absl::StatusOr<OutputPipe> out = OutputPipe::Make();
  if (!out.ok()) return out.status();
  absl::StatusOr<OutputPipe> err = OutputPipe::Make();
  if (!err.ok()) return err.status();
  absl::StatusOr<OutputPipe> outcome = OutputPipe::MakeSmall();
  if (!outcome.ok()) return outcome.status();

  const auto program = std::make_shared<const ChildProgram>(*std::move(prepared));
  const ChildDescriptors descriptors = {null.get(), out->write_end.get(), err->write_end.get(),
                                        outcome->write_end.get()};
  const absl::StatusOr<pid_t> started = threads_.Start(
      [program, descriptors, parent = ::getpid()](const std::function<void()>& may_allocate) {
        program->Become(descriptors, parent, may_allocate);
      });
  if (!started.ok()) return ExplainForkFailure(request.argv[0], started.status());
  const pid_t pid = *started;
  ::setpgid(pid, pid);  // also here: a signal may be due before the child has called it
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) {
    const int error = errno;
    ::kill(-pid, SIGKILL);  // the owner of this process's children reaps it
    return absl::ErrnoToStatus(error, "cannot watch a worker (ulimit -n)");
  }
  return SpawnedProcess{pid, std::move(pidfd), std::move(out->read_end), std::move(err->read_end),
                        std::move(outcome->read_end)};
}

absl::StatusOr<SpawnedProcess> PosixProcessRunner::Adopt(pid_t pid) {
  siginfo_t info{};
  if (pid <= 1 ||
      ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    return absl::NotFoundError(absl::StrCat("process ", pid, " is no child of this one"));
  }
  if (::getpgid(pid) != pid) {
    return absl::NotFoundError(absl::StrCat("process ", pid, " leads no process group"));
  }
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) return absl::ErrnoToStatus(errno, "cannot watch a worker (ulimit -n)");
  return SpawnedProcess{pid, std::move(pidfd), UniqueFd(), UniqueFd(), UniqueFd()};
}

absl::Status SignalProcessGroup(pid_t pid, int signo) {
  // kill(-1) would reach all processes, kill(0) our own group.
  if (pid <= 1) {
    return absl::InvalidArgumentError(absl::StrCat("no worker's process group: ", pid));
  }
  if (::kill(-pid, signo) != 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot send ", SignalName(signo), " to process group ", pid));
  }
  // A stopped process handles the signal only once it is continued.
  const bool asks_to_end =
      signo == SIGTERM || signo == SIGINT || signo == SIGQUIT || signo == SIGHUP;
  if (asks_to_end) ::kill(-pid, SIGCONT);
  return absl::OkStatus();
}

absl::Status PosixProcessRunner::SignalGroup(pid_t pid, int signo) {
  return SignalProcessGroup(pid, signo);
}

absl::Status PosixProcessRunner::Discard(const SpawnedProcess& process) {
  const absl::Status killed = SignalGroup(process.pid, SIGKILL);
  if (killed.ok()) WaitFor(process.pidfd.get());
  return killed;
}

absl::StatusOr<std::vector<pid_t>> PosixProcessRunner::EndOrphans(std::chrono::microseconds) {
  return std::vector<pid_t>{};
}

absl::StatusOr<ExitStatus> PosixProcessRunner::Reap(int pidfd) {
  siginfo_t info{};
  if (::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED | WNOHANG) != 0) {
    return absl::ErrnoToStatus(errno, "cannot collect a worker's exit status");
  }
  if (info.si_pid == 0) return absl::FailedPreconditionError("the worker is still running");
  ExitStatus status;
  if (info.si_code == CLD_EXITED) {
    status.code = info.si_status;
  } else {
    status.signal = info.si_status;
    status.core_dumped = info.si_code == CLD_DUMPED;
  }
  return status;
}

}  // namespace ddprun
