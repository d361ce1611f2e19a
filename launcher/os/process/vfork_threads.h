// Threads that make child processes by vfork.
//
// fork() copies the page tables of the process, and each page that either process writes to
// afterwards. With vfork() the child uses the memory of its parent until it executes a program.
// Until then the kernel suspends the thread that made the child. A slow disk can make this very
// long, so that thread does nothing else.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_VFORK_THREADS_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_VFORK_THREADS_H_

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

namespace ddprun {

// The kernel takes the thread that made a child for its parent (PR_SET_PDEATHSIG): the threads live
// as long as the process. They are reused; there are as many as there were children at one time
// that had not executed a program yet.
class VforkThreads {
 public:
  // What a child does. It ends by execve or _exit.
  //
  // It runs in the memory of the caller's process, beside the other threads, and can be killed at
  // any instruction. What it then holds is never released. So it must not allocate, until it has
  // called `may_allocate`: the thread is not used again after that, and its allocator's lock stays
  // with it.
  using Become = std::function<void(const std::function<void()>& may_allocate)>;

  // Makes a child, with every signal blocked, that calls `become`. Returns its pid as soon as it
  // exists: nobody waits for the program. Descriptors that are open now, `become` can use, also
  // when they are closed after Start has returned. What it refers to must live as long as `become`
  // does, which is released when the child has executed a program or has ended. From one thread. An
  // errno as absl::ErrnoToStatus where there can be no child.
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
