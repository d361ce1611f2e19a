// Blocks all signals of this thread while the object exists, including the signals that glibc
// reserves and pthread_sigmask does not block. A process forked meanwhile inherits the mask.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_BLOCK_SIGNALS_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_BLOCK_SIGNALS_H_

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace ddprun {

class BlockAllSignals {
 public:
  BlockAllSignals() {
    const std::uint64_t all = ~std::uint64_t{0};
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &previous_, sizeof(all));
  }
  ~BlockAllSignals() {
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &previous_, nullptr, sizeof(previous_));
  }
  BlockAllSignals(const BlockAllSignals&) = delete;
  BlockAllSignals& operator=(const BlockAllSignals&) = delete;

 private:
  std::uint64_t previous_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_BLOCK_SIGNALS_H_
