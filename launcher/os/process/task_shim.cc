#include "launcher/os/process/task_shim.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>

#include "launcher/os/check.h"
#include "launcher/os/process/child_reaper.h"

namespace ddprun {
namespace {

constexpr int kMostStarts = 4;  // of the agent
constexpr int kJobRuns = -1;

// In memory that the shim and its agents share: the exit code of a job that is over, or kJobRuns.
std::atomic<int>* exit_code_of_job = nullptr;

std::atomic<int>* ShareExitCode() {
  void* const page = ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CheckSyscall(page == MAP_FAILED ? -1 : 0, "mmap for the agent's exit code");
  return new (page) std::atomic<int>(kJobRuns);
}

// True: the process was killed or has crashed. A signal that asks it to end does not count.
bool WasKilled(int status) {
  if (!WIFSIGNALED(status)) return false;
  const int signo = WTERMSIG(status);
  return signo == SIGKILL || signo == SIGSEGV || signo == SIGBUS || signo == SIGABRT ||
         signo == SIGILL || signo == SIGFPE;
}

// True: the process runs this program, so it is the guardian or the rendezvous, and no left-over of
// a worker.
bool IsOurs(pid_t pid) {
  std::error_code error;
  const auto program =
      std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", error);
  return !error && program == std::filesystem::read_symlink("/proc/self/exe", error);
}

class TaskShim {
 public:
  // False: this is the agent.
  bool StartAgent(const sigset_t& agents_mask) {
    ++starts_;
    const pid_t shim = ::getpid();
    agent_ = CheckSyscall(::fork(), "fork of the agent");
    if (agent_ > 0) return true;
    ::prctl(PR_SET_NAME, "ddprun", 0, 0, 0);
    CheckSyscall(::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)");
    if (::getppid() != shim) ::_exit(128 + SIGKILL);
    ::sigprocmask(SIG_SETMASK, &agents_mask, nullptr);
    return false;
  }

  // Waits for the agent's end. True: start the agent again.
  bool Watch(const sigset_t& all) {
    while (agent_ > 0 || AnyOfOursLeft()) {
      const int signo = ::sigwaitinfo(&all, nullptr);
      if (signo == SIGCHLD) {
        if (CollectChildren()) return true;
      } else if (signo > 0) {
        HandOn(signo);
      }
    }
    return false;
  }

  int exit_code() const { return exit_code_; }

 private:
  // True: the agent is to be started again.
  bool CollectChildren() {
    bool again = false;
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid != agent_) continue;  // an orphan of the agent
      agent_ = 0;
      const int told = exit_code_of_job->load();
      const bool over = told != kJobRuns;
      exit_code_ = over ? told : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      again = WasKilled(status) && !over && !asked_to_end_ && starts_ < kMostStarts;
      if (WasKilled(status)) {
        std::fprintf(stderr, "ddprun: the agent (pid %d) was killed by signal %d (%s)%s\n",
                     static_cast<int>(pid), WTERMSIG(status), ::strsignal(WTERMSIG(status)),
                     over    ? " after the job's end"
                     : again ? "; it is started again"
                             : "");
      }
    }
    return again;
  }

  void HandOn(int signo) {
    asked_to_end_ = asked_to_end_ || signo == SIGTERM || signo == SIGINT || signo == SIGQUIT;
    if (agent_ > 0) {
      ::kill(agent_, signo);
      return;
    }
    for (const pid_t pid : ListChildren()) {
      if (IsOurs(pid)) ::kill(pid, signo);
    }
  }

  static bool AnyOfOursLeft() {
    for (const pid_t pid : ListChildren()) {
      if (IsOurs(pid)) return true;
    }
    return false;
  }

  pid_t agent_ = 0;  // 0: it has ended
  int starts_ = 0;
  int exit_code_ = 0;
  bool asked_to_end_ = false;
};

}  // namespace

void ContinueUnderTaskShim() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  ::prctl(PR_SET_NAME, "ddprun-shim", 0, 0, 0);
  BecomeSubreaper();
  exit_code_of_job = ShareExitCode();
  TaskShim shim;
  do {
    if (!shim.StartAgent(before)) return;
  } while (shim.Watch(all));
  std::fflush(stderr);
  ::_exit(shim.exit_code());
}

void TellTaskShim(int exit_code) {
  if (exit_code_of_job != nullptr) exit_code_of_job->store(exit_code);
}

}  // namespace ddprun
