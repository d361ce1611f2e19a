// The agent's own signals, as events on its loop.
//
// SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1 and SIGUSR2 are blocked and read through a signalfd, so
// no code of the agent ever runs in a signal handler. SIGHUP is left alone when it was ignored at
// start, so that `nohup ddprun ...` keeps its meaning. SIGPIPE is ignored: a reader that went away
// is an EPIPE. SIGCHLD is not used: a worker's death is seen at its pidfd.
//
// Ctrl-Z (SIGTSTP) stops the process as ever, but lets its owner stop others first: workers are in
// process groups of their own, which the terminal's signals do not reach.
//
// Make it on the main thread before any other thread is started: threads inherit the mask, and a
// thread that has the signals unblocked would be killed by them.
#ifndef DDPRUN_LAUNCHER_OS_SIGNAL_SOURCE_H_
#define DDPRUN_LAUNCHER_OS_SIGNAL_SOURCE_H_

#include <signal.h>
#include <sys/types.h>

#include <functional>

#include "launcher/os/event_loop.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

class SignalSource {
 public:
  // Called on the loop, once per signal. `sender` is the pid that sent it, 0 for the kernel (a key
  // on the terminal, for example).
  using Handler = std::function<void(int signo, pid_t sender)>;

  // Called on the loop around each stop by SIGTSTP.
  struct Suspension {
    std::function<void()> before_stop;
    std::function<void()> after_continue;
  };

  // `loop` must outlive this object. Without a suspension SIGTSTP is left alone.
  SignalSource(EventLoop* loop, Handler handler, Suspension suspension = {});

  // Puts the calling thread's mask and SIGPIPE back. A signal that is pending then takes its
  // default action.
  ~SignalSource();
  SignalSource(const SignalSource&) = delete;
  SignalSource& operator=(const SignalSource&) = delete;

 private:
  void OnReadable();
  void Suspend();

  EventLoop* const loop_;
  const Handler handler_;
  const Suspension suspension_;
  sigset_t previous_mask_;
  struct sigaction previous_sigpipe_;
  UniqueFd signal_fd_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_SIGNAL_SOURCE_H_
