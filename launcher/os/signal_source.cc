#include "launcher/os/signal_source.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <utility>

#include "launcher/os/check.h"

namespace ddprun {
namespace {

sigset_t SignalsToTake() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signo : {SIGTERM, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2}) sigaddset(&set, signo);
  // A blocked signal is queued even when it is ignored, so nohup has to be asked for.
  struct sigaction hangup;
  CheckSyscall(sigaction(SIGHUP, nullptr, &hangup), "sigaction SIGHUP");
  if (hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

SignalSource::SignalSource(EventLoop* loop, Handler handler)
    : loop_(loop), handler_(std::move(handler)) {
  const sigset_t set = SignalsToTake();
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
  // One signal a turn: the handler may do anything, destroying this object included.
  signalfd_siginfo info;
  if (::read(signal_fd_.get(), &info, sizeof(info)) != sizeof(info)) return;
  const Handler handler = handler_;
  handler(static_cast<int>(info.ssi_signo), static_cast<pid_t>(info.ssi_pid));
}

}  // namespace ddprun
