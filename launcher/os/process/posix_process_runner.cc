#include "launcher/os/process/posix_process_runner.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launcher/os/output/output_pipe.h"
#include "launcher/os/process/block_signals.h"
#include "launcher/os/process/child_process.h"
#include "launcher/os/process/program_path.h"

// glibc's clone() by its other name. ThreadSanitizer intercepts `clone`, takes every call for a
// fork() and runs its own bookkeeping in the child, in memory that here is still the agent's.
extern "C" int __clone(int (*function)(void*), void* stack, int flags, void* argument, ...);

namespace ddprun {
namespace {

constexpr std::size_t kStackBytes = 64 << 10;

// The child's stack, with the lowest page inaccessible.
class ChildStack {
 public:
  ChildStack()
      : base_(::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0)) {
    if (valid()) ::mprotect(base_, 4096, PROT_NONE);
  }
  ~ChildStack() {
    if (valid()) ::munmap(base_, kStackBytes);
  }
  ChildStack(const ChildStack&) = delete;
  ChildStack& operator=(const ChildStack&) = delete;

  bool valid() const { return base_ != MAP_FAILED; }
  void* top() const { return static_cast<char*>(base_) + kStackBytes; }

 private:
  void* const base_;
};

absl::StatusOr<std::vector<char*>> ToPointers(const std::vector<std::string>& strings,
                                              const char* what) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) {
    if (string.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(what, " contains a NUL byte"));
    }
    // execve's type is historical: it writes to none of them.
    pointers.push_back(const_cast<char*>(string.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

absl::Status ExplainChildFailure(const ChildPlan& plan, const std::string& cwd) {
  switch (plan.failed_at) {
    case ChildStep::kChangeDirectory:
      return ExplainChdirFailure(cwd, plan.error);
    case ChildStep::kExec:
      return ExplainExecFailure(plan.path, cwd, plan.error);
    default:
      return absl::ErrnoToStatus(plan.error, absl::StrCat("cannot prepare ", plan.path, ": ",
                                                          ChildStepName(plan.failed_at)));
  }
}

void WaitFor(int pidfd) {
  siginfo_t info;
  while (::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED) != 0 && errno == EINTR) {
  }
}

absl::StatusOr<std::string> FindProgramOf(const SpawnRequest& request) {
  absl::StatusOr<std::string> path = FindProgram(request.argv[0], request.env, request.cwd);
  // A wrong directory hides the program: say that, not that the program is missing.
  if (!path.ok() && !request.cwd.empty() && ::access(request.cwd.c_str(), X_OK) != 0) {
    return ExplainChdirFailure(request.cwd, errno);
  }
  return path;
}

absl::Status ExplainCloneFailure(const std::string& path, int error) {
  if (error == EAGAIN) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot start ", path, ": no more processes (ulimit -u, or the cgroup's pids.max)"));
  }
  return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", path));
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
  if (request.argv.empty()) return absl::InvalidArgumentError("there is no command to run");
  absl::StatusOr<std::vector<char*>> argv = ToPointers(request.argv, "an argument");
  if (!argv.ok()) return argv.status();
  absl::StatusOr<std::vector<char*>> envp = ToPointers(request.env, "an environment variable");
  if (!envp.ok()) return envp.status();

  absl::StatusOr<std::string> path = FindProgramOf(request);
  if (!path.ok()) return path.status();

  UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return absl::ErrnoToStatus(errno, "cannot open /dev/null");
  if (absl::Status moved = MoveAboveStdio(&null); !moved.ok()) return moved;
  absl::StatusOr<OutputPipe> out = OutputPipe::Make();
  if (!out.ok()) return out.status();
  absl::StatusOr<OutputPipe> err = OutputPipe::Make();
  if (!err.ok()) return err.status();
  const ChildStack stack;
  if (!stack.valid()) return absl::ErrnoToStatus(errno, "no memory for a worker's first stack");

  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  ChildPlan plan{};
  plan.path = path->c_str();
  plan.argv = argv->data();
  plan.envp = envp->data();
  plan.cwd = request.cwd.empty() ? nullptr : request.cwd.c_str();
  plan.stdin_fd = null.get();
  plan.stdout_fd = out->write_end.get();
  plan.stderr_fd = err->write_end.get();
  plan.expected_parent = ::getpid();
  plan.max_descriptors = static_cast<unsigned>(files.rlim_cur);

  int pidfd = -1;
  int clone_error = 0;
  pid_t pid;
  {
    const BlockAllSignals blocked;
    // Returns when the child has executed the program or ended.
    pid = ::__clone(&ChildMain, stack.top(), CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &plan,
                    &pidfd);
    clone_error = errno;
  }
  if (pid < 0) return ExplainCloneFailure(*path, clone_error);

  SpawnedProcess process{pid, UniqueFd(pidfd), std::move(out->read_end), std::move(err->read_end)};
  if (plan.error != 0) {
    WaitFor(pidfd);
    return ExplainChildFailure(plan, request.cwd);
  }
  return process;
}

absl::Status SignalProcessGroup(pid_t pid, int signo) {
  // kill(-1) and kill(0) would reach everybody, and us.
  if (pid <= 1) {
    return absl::InvalidArgumentError(absl::StrCat("no worker's process group: ", pid));
  }
  if (::kill(-pid, signo) != 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot send ", SignalName(signo), " to process group ", pid));
  }
  // A stopped process would not hear of it before somebody continues it.
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
