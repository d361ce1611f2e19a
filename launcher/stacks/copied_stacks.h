// What is copied of processes while they are held, and what becomes of it. Plain data.
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
  bool entered_from_c = false;  // the interpreter's loop was called anew for it

  friend bool operator==(const PythonFrame&, const PythonFrame&) = default;
};

struct CopiedThread {
  pid_t tid = 0;
  std::string name;  // the kernel's, 15 bytes
  char state = '?';  // before it was held: R, S, D, T, ... of proc(5)
  std::string
      call;  // the system call that it waits in: "read(/data/shard-0017)", "futex"; or empty
  std::string wchan;  // the kernel's function that it waits in; empty where the kernel does not say

  absl::Status copied;  // OK: what follows is there
  std::vector<std::uint64_t>
      registers;                  // in DWARF's order; the last one is the address of the code
  std::uint64_t stack_start = 0;  // the address of stack[0]
  std::string stack;
  bool stack_is_whole = false;             // up to the end of its mapping
  std::vector<PythonFrame> python_frames;  // innermost first; empty: none
};

struct CopiedProcess {
  pid_t pid = 0;
  std::string name;
  // Not OK: no thread was copied. PermissionDenied says which permission is missing, NotFound that
  // it ended, FailedPrecondition that somebody traces it, DeadlineExceeded that time ran out.
  absl::Status status;
  // Why it was not held, if it has written its stacks itself; else empty. A Python program has
  // written Python frames only: its threads' `copied` is PermissionDenied, the main thread has its
  // own frames, and each other thread's frames are in an added entry without a tid.
  std::string not_held;
  bool stopped = false;  // by a signal, before it was held; it still is
  pid_t traced_by = 0;
  std::string
      python;        // why a Python program's frames are not shown; empty: they are, or it is none
  std::string maps;  // /proc/PID/maps
  std::vector<CopiedThread> threads;  // the main one first
  std::chrono::nanoseconds held{0};   // from the first thread's stop to the last one's release
};

// The native frames of one thread.
struct UnwoundThread {
  pid_t tid = 0;
  std::vector<StackFrame> frames;  // innermost first
  bool complete = false;           // up to where the thread began
  std::string error;               // why it is not; may be empty
};

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_COPIED_STACKS_H_
