#include "launcher/os/signal_source.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <utility>

#include "launcher/os/check.h"

namespace ddprun {
namespace {

// A blocked signal is queued even if it is ignored, so `nohup` needs this check.
bool IsIgnored(int signo) {
  struct sigaction action;
  CheckSyscall(sigaction(signo, nullptr, &action), "sigaction");
  return action.sa_handler == SIG_IGN;
}

sigset_t SignalsToTake(bool with_suspension) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signo : {SIGTERM, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2}) sigaddset(&set, signo);
  if (!IsIgnored(SIGHUP)) sigaddset(&set, SIGHUP);
  if (with_suspension && !IsIgnored(SIGTSTP)) sigaddset(&set, SIGTSTP);
  return set;
}

}  // namespace

SignalSource::SignalSource(EventLoop* loop, Handler handler, Suspension suspension)
    : loop_(loop), handler_(std::move(handler)), suspension_(std::move(suspension)) {
  const sigset_t set = SignalsToTake(static_cast<bool>(suspension_.before_stop));
  Check(pthread_sigmask(SIG_BLOCK, &set, &previous_mask_) == 0, "pthread_sigmask");
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  CheckSyscall(sigaction(SIGPIPE, &ignore, &previous_sigpipe_), "sigaction SIGPIPE");
  signal_fd_.reset(CheckSyscall(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd"));
  loop_->Watch(signal_fd_.get(), EPOLLIN, [this](std::uint32_t) { OnReadable(); });
}

SignalSource::~SignalSource() {
  loop_->Unwatch(signal_fd_.get());
  sigaction(SIGPIPE, &previous_sigpipe_, nullptr);
  pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
}

void SignalSource::OnReadable() {
  // One signal per turn, because the handler may destroy this object.
  signalfd_siginfo info;
  if (::read(signal_fd_.get(), &info, sizeof(info)) != sizeof(info)) return;
  if (info.ssi_signo == SIGTSTP) return Suspend();
  const Handler handler = handler_;
  handler(static_cast<int>(info.ssi_signo), static_cast<pid_t>(info.ssi_pid));
}

void SignalSource::Suspend() {
  suspension_.before_stop();
  // Raise the real signal with its default action, so that the shell sees a job stopped by Ctrl-Z.
  // The kernel discards it in an orphaned process group, which nobody could continue.
  sigset_t stop;
  sigset_t previous;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  ::kill(::getpid(), SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &stop, &previous);  // stops here until SIGCONT
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  suspension_.after_continue();
}

}  // namespace ddprun
