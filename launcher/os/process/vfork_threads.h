// Threads that make child processes by vfork.
//
// fork() copies the page tables of the process, and later each page to which one of the two
// processes writes. With vfork() the child uses the memory of its parent until it executes a
// program. Until then the kernel suspends the thread that made the child. On a slow disk this can
// take very long, so that thread does nothing else.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_VFORK_THREADS_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_VFORK_THREADS_H_

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

namespace ddprun {

// For PR_SET_PDEATHSIG the kernel regards the thread that made a child as its parent. So the
// threads live as long as the process. Idle threads are reused. So there are about as many threads
// as children that were starting at the same time.
class VforkThreads {
 public:
  // The code of a child. It ends by execve or _exit.
  //
  // It runs in the memory of the caller's process, beside the other threads. It can be killed at
  // any instruction, and then the resources that it holds are never released. So it must not
  // allocate before it has called `may_allocate`. After that call the thread is not reused, because
  // it may hold a lock of the allocator.
  using Become = std::function<void(const std::function<void()>& may_allocate)>;

  // Makes a child that calls `become` with every signal blocked. Returns the pid as soon as the
  // child exists, without waiting for the program. `become` can use the descriptors that are open
  // now, even if they are closed after Start has returned. Objects that `become` uses must live
  // until `become` is released: when the child has executed a program or has ended. One thread.
  // Error: no child was made (absl::ErrnoToStatus).
  absl::StatusOr<pid_t> Start(Become become);

 private:
  struct Child;
  struct Thread;

  static void Run(const std::shared_ptr<Thread>& thread);
  static void Vfork(Child* child);
  Thread* Idle();

  std::vector<std::shared_ptr<Thread>> threads_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_VFORK_THREADS_H_
