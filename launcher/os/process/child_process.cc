#include "launcher/os/process/child_process.h"

#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "launcher/os/process/close_descriptors.h"
#include "launcher/os/process/program_path.h"

namespace ddprun {
namespace {

constexpr int kSignals = 64;
constexpr int kExitCode = 127;  // nobody sees it: the outcome pipe has the reason

// System calls, because glibc keeps two signals to itself.
void ResetSignals() {
  // Zero is SIG_DFL without flags, and larger than the kernel's sigaction on any architecture.
  static constexpr std::uint64_t kDefaultAction[8] = {};
  static constexpr std::uint64_t kNoSignals = 0;
  for (int signo = 1; signo <= kSignals; ++signo) {
    // Refused for SIGKILL and SIGSTOP, which have no other action anyway.
    ::syscall(SYS_rt_sigaction, signo, kDefaultAction, nullptr, sizeof(kNoSignals));
  }
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &kNoSignals, nullptr, sizeof(kNoSignals));
}

// dup2 takes close-on-exec away, because the descriptors differ.
bool Redirect(const ChildDescriptors& descriptors) {
  return ::dup2(descriptors.in, 0) == 0 && ::dup2(descriptors.out, 1) == 1 &&
         ::dup2(descriptors.err, 2) == 2;
}

absl::Status Failure(const SpawnRequest& request, const char* step, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot prepare ", request.argv[0], ": ", step));
}

// Returns only when the program does not run.
absl::Status Execute(const SpawnRequest& request, char* const* argv, char* const* envp,
                     const ChildDescriptors& descriptors, pid_t parent) {
  if (::setpgid(0, 0) != 0) return Failure(request, "setpgid", errno);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
    return Failure(request, "prctl(PR_SET_PDEATHSIG)", errno);
  }
  // The parent may have died before the line above: then nobody would kill us.
  if (::getppid() != parent) return Failure(request, "prctl(PR_SET_PDEATHSIG)", ESRCH);
  if (!Redirect(descriptors)) return Failure(request, "dup2", errno);
  CloseDescriptorsBut({descriptors.outcome});
  ResetSignals();  // before what may hang: from here on any fatal signal ends it

  if (!request.cwd.empty() && ::chdir(request.cwd.c_str()) != 0) {
    return ExplainChdirFailure(request.cwd, errno);
  }
  const absl::StatusOr<std::string> path = FindProgram(request.argv[0], request.env);
  if (!path.ok()) return path.status();
  ::execve(path->c_str(), argv, envp);
  return ExplainExecFailure(*path, errno);
}

}  // namespace

// One write that fits into an empty pipe whole: the reader never sees a part of it.
void BecomeProgram(const SpawnRequest& request, char* const* argv, char* const* envp,
                   const ChildDescriptors& descriptors, pid_t parent) {
  const absl::Status failure = Execute(request, argv, envp, descriptors, parent);
  std::string report(1, static_cast<char>(failure.raw_code()));
  absl::StrAppend(&report, failure.message());
  if (report.size() > PIPE_BUF) report.resize(PIPE_BUF);
  [[maybe_unused]] const ssize_t size = ::write(descriptors.outcome, report.data(), report.size());
  ::_exit(kExitCode);
}

std::optional<absl::Status> SpawnOutcome(int outcome_pipe) {
  char report[PIPE_BUF];
  ssize_t size;
  do {
    size = ::read(outcome_pipe, report, sizeof(report));
  } while (size < 0 && errno == EINTR);
  if (size == 0) return absl::OkStatus();
  if (size < 0 && errno == EAGAIN) return std::nullopt;
  if (size < 0) return absl::ErrnoToStatus(errno, "cannot read how a worker's start went");
  return absl::Status(static_cast<absl::StatusCode>(report[0]),
                      absl::string_view(report + 1, static_cast<std::size_t>(size) - 1));
}

}  // namespace ddprun
