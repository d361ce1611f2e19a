#include "worker/src/agent/stray_sigterm.h"

#include <signal.h>

namespace ddp::internal {
namespace {

volatile sig_atomic_t agent_pid = 0;

void OnSigterm(int signo, siginfo_t* info, void*) {
  if (info->si_code > 0 || info->si_pid != agent_pid) return;
  signal(signo, SIG_DFL);
  raise(signo);  // takes effect when this handler returns
}

}  // namespace

void LeaveStraySigtermTo(int agent) {
  struct sigaction action = {};
  if (sigaction(SIGTERM, nullptr, &action) != 0 || (action.sa_flags & SA_SIGINFO) != 0 ||
      action.sa_handler != SIG_DFL) {
    return;
  }
  agent_pid = agent;
  action.sa_sigaction = OnSigterm;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace ddp::internal
