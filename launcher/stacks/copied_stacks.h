// The data copied from held processes, and the frames unwound from it. Plain data.
#ifndef DDPRUN_LAUNCHER_STACKS_COPIED_STACKS_H_
#define DDPRUN_LAUNCHER_STACKS_COPIED_STACKS_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun::stacks {

struct PythonFrame {
  StackFrame frame;
  bool entered_from_c = false;  // C called the interpreter's loop for this frame
  // An address in the stack frame of the loop that C called. 0: not known.
  std::uint64_t loop = 0;

  friend bool operator==(const PythonFrame&, const PythonFrame&) = default;
};

struct CopiedThread {
  pid_t tid = 0;
  std::string name;   // the kernel's name, at most 15 bytes
  char state = '?';   // before the hold: R, S, D, T, ... of proc(5)
  std::string call;   // the system call it waits in: "read(/data/shard-0017)", "futex"; or empty
  std::string wchan;  // the kernel function it waits in; empty: unknown

  absl::Status copied;                   // OK: the fields below are set
  std::vector<std::uint64_t> registers;  // in DWARF's order; the last one is the code address
  std::uint64_t stack_start = 0;         // the address of stack[0]
  std::string stack;
  bool stack_is_whole = false;             // copied up to its end
  std::vector<PythonFrame> python_frames;  // innermost first; empty: none
};

struct CopiedProcess {
  pid_t pid = 0;
  std::string name;
  // Not OK: no thread was copied. PermissionDenied names the missing permission. NotFound: it
  // ended. FailedPrecondition: another process traces it. DeadlineExceeded: out of time, or its
  // memory is locked.
  absl::Status status;
  // Set if the process wrote its stacks itself: the reason why ddprun did not hold it. A Python
  // program writes only Python frames. Then CopiedThread::copied is PermissionDenied for all
  // threads, and threads[0] has the frames of the main thread. Each other thread with frames has a
  // second entry, without a tid.
  std::string not_held;
  bool stopped = false;  // by a signal, before and after the hold
  pid_t traced_by = 0;
  std::string python;  // why a Python program's frames are missing; empty: present, or no Python
  std::string maps;    // /proc/PID/maps
  std::vector<CopiedThread> threads;  // the main thread first
  std::chrono::nanoseconds held{0};   // from the first thread's stop to the last one's release
};

// The native frames of one thread.
struct UnwoundThread {
  pid_t tid = 0;
  std::vector<StackFrame> frames;  // innermost first
  bool complete = false;           // up to the beginning of the thread
  std::string error;               // why not complete; may be empty
  // For each entry of `frames`: the lowest address of its stack frame. The stack frame ends at the
  // address of the next entry, its caller. 0: not known.
  std::vector<std::uint64_t> stack_pointers;
};

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_COPIED_STACKS_H_
