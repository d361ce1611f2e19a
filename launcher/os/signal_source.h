// The agent's own signals, as events on its loop.
//
// SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1 and SIGUSR2 are blocked and read through a signalfd, so
// no code of the agent runs in a signal handler. If SIGHUP was ignored at start, it stays ignored,
// so that `nohup ddprun ...` works. SIGPIPE is ignored: writing to a closed pipe fails with EPIPE.
// SIGCHLD is not used: a worker's death shows at its pidfd.
//
// Ctrl-Z (SIGTSTP) stops the process as usual, but the owner can stop the workers first: they have
// their own process groups, which the terminal's signals do not reach.
//
// Make it on the main thread before any other thread starts. Threads inherit the signal mask, and a
// signal to a thread that does not block the signal would kill the process.
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
  // Called on the loop, once per signal. `sender`: the pid of the sender; 0: the kernel (for
  // example, a key on the terminal).
  using Handler = std::function<void(int signo, pid_t sender)>;

  // Called on the loop around each stop by SIGTSTP.
  struct Suspension {
    std::function<void()> before_stop;
    std::function<void()> after_continue;
  };

  // `loop` must outlive this object. Without a suspension SIGTSTP is not handled.
  SignalSource(EventLoop* loop, Handler handler, Suspension suspension = {});

  // Restores the calling thread's mask and SIGPIPE. A pending signal then has its default effect.
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
