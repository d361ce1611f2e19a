#include "launcher/os/process/child_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

// The sanitizers keep books about the thread that runs; here it is a borrowed one. Raw syscall()
// also passes by their interceptors, which would note the child's close() in the agent's books.
#define DDPRUN_IN_CHILD __attribute__((no_sanitize("address", "thread", "undefined")))

namespace ddprun {
namespace {

constexpr int kSignals = 64;
constexpr int kExitCode = 127;  // nobody sees it: the agent reports the step and the errno

[[noreturn]] DDPRUN_IN_CHILD void Fail(ChildPlan* plan, ChildStep step, int error) {
  plan->failed_at = step;
  plan->error = error;
  for (;;) ::syscall(SYS_exit_group, kExitCode);
}

// Handlers must be gone before the mask is emptied: the agent's would run in the agent's memory.
DDPRUN_IN_CHILD void ResetSignals() {
  // Zero is SIG_DFL without flags, and larger than the kernel's sigaction on any architecture.
  static constexpr std::uint64_t kDefaultAction[8] = {};
  static constexpr std::uint64_t kNoSignals = 0;
  for (int signo = 1; signo <= kSignals; ++signo) {
    // Refused for SIGKILL and SIGSTOP, which have no other action anyway.
    ::syscall(SYS_rt_sigaction, signo, kDefaultAction, nullptr, sizeof(kNoSignals));
  }
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &kNoSignals, nullptr, sizeof(kNoSignals));
}

// dup3 refuses equal descriptors, which cannot happen here: the sources are above 2.
DDPRUN_IN_CHILD bool Redirect(const ChildPlan& plan) {
  if (::syscall(SYS_dup3, plan.stdin_fd, 0, 0) < 0) return false;
  if (::syscall(SYS_dup3, plan.stdout_fd, 1, 0) < 0) return false;
  return ::syscall(SYS_dup3, plan.stderr_fd, 2, 0) >= 0;
}

DDPRUN_IN_CHILD void CloseOthers(const ChildPlan& plan) {
  if (::syscall(SYS_close_range, 3U, ~0U, 0U) == 0) return;
  for (unsigned fd = 3; fd < plan.max_descriptors; ++fd) ::syscall(SYS_close, fd);
}

}  // namespace

const char* ChildStepName(ChildStep step) {
  switch (step) {
    case ChildStep::kSetProcessGroup:
      return "setpgid";
    case ChildStep::kSetDeathSignal:
      return "prctl(PR_SET_PDEATHSIG)";
    case ChildStep::kRedirect:
      return "dup3";
    case ChildStep::kChangeDirectory:
      return "chdir";
    case ChildStep::kExec:
      return "execve";
  }
  return "unknown step";
}

DDPRUN_IN_CHILD int ChildMain(void* argument) {
  ChildPlan* const plan = static_cast<ChildPlan*>(argument);
  if (::syscall(SYS_setpgid, 0, 0) != 0) Fail(plan, ChildStep::kSetProcessGroup, errno);
  if (::syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
    Fail(plan, ChildStep::kSetDeathSignal, errno);
  }
  // The agent may have died before the line above: then nobody would kill us.
  if (::syscall(SYS_getppid) != plan->expected_parent) {
    Fail(plan, ChildStep::kSetDeathSignal, ESRCH);
  }
  if (!Redirect(*plan)) Fail(plan, ChildStep::kRedirect, errno);
  CloseOthers(*plan);
  if (plan->cwd != nullptr && ::syscall(SYS_chdir, plan->cwd) != 0) {
    Fail(plan, ChildStep::kChangeDirectory, errno);
  }
  ResetSignals();
  ::syscall(SYS_execve, plan->path, plan->argv, plan->envp);
  Fail(plan, ChildStep::kExec, errno);
}

}  // namespace ddprun
