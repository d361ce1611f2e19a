// The stacks of this node's processes, as a tree: holds each for a moment, copies, lets go, unwinds
// in a helper process, and says in a note what is missing and why.
//
// Blocks until about `deadline`; any thread but one that must stay responsive. main() of the
// program must have called RunIfUnwindHelper().
#ifndef DDPRUN_LAUNCHER_STACKS_TAKE_STACKS_H_
#define DDPRUN_LAUNCHER_STACKS_TAKE_STACKS_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "launcher/stacks/copied_stacks.h"
#include "launcher/stacks/unwind_helper.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun::stacks {

struct StackTarget {
  std::uint32_t rank = 0;  // or whatever number the tree is to have for it
  pid_t pid = 0;
  // ProcessId::started: a process that began at another time is not looked at. 0: any.
  std::uint64_t started = 0;
  // Another process of the rank: all its threads are other threads, below "process NAME".
  bool is_other = false;
};

struct TakenStacks {
  StackTree tree;
  std::vector<std::chrono::nanoseconds> held;  // how long each target was, in their order
  std::size_t missing = 0;                     // targets without a copied thread
  std::size_t refused = 0;                     // missing targets that ddprun may not trace
};

// `kBesideTraining`: the targets compute, and are to go on doing so: where no CPU is free, the
// stacks take longer.
enum class StackUrgency { kAtOnce, kBesideTraining };

// Blocks until `deadline` at most. Any thread. Those that `is_other` come last in `targets`, and
// have half of the time at most.
TakenStacks TakeStacks(absl::Span<const StackTarget> targets,
                       std::chrono::steady_clock::time_point deadline,
                       StackUrgency urgency = StackUrgency::kAtOnce);

// ---- the pure part ----

// Adds what is known of one process. `unwound` has the frames of its threads, and maybe others.
void AddProcess(const StackTarget& target, const CopiedProcess& process, const Unwound& unwound,
                StackTree* tree);

// Without what every thread begins with: _start, __libc_start_main, clone3, start_thread, and what
// std::thread puts before its function.
std::vector<StackFrame> WithoutBeginning(std::vector<StackFrame> outermost_first);

// Of the C library's innermost frames only the one that the program called, without its line: the
// ranks that wait in pthread_cond_wait are at the same place, however it is made inside.
std::vector<StackFrame> WithoutLibcInside(std::vector<StackFrame> outermost_first);

// Puts Python frames in the place of the interpreter's. Both innermost first, as is the result.
std::vector<StackFrame> WithPython(const std::vector<StackFrame>& native,
                                   const std::vector<PythonFrame>& python);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_TAKE_STACKS_H_
