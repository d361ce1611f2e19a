// The stacks of this node's processes as a tree. Holds each process for a moment, copies its
// stacks, releases it, and unwinds the copies in a helper process. Notes say which stacks are
// missing and why.
//
// Blocks until about `deadline`, so do not call it on a thread that must stay responsive. main() of
// the program must have called RunIfUnwindHelper().
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
  std::uint32_t rank = 0;  // or another number that identifies the process in the tree
  pid_t pid = 0;
  // ProcessId::started: a process with another start time is skipped. 0: any.
  std::uint64_t started = 0;
  // Another process of the rank. All its threads count as other threads, below "process NAME".
  bool is_other = false;
};

struct TakenStacks {
  StackTree tree;
  std::vector<std::chrono::nanoseconds> held;  // hold time of each target, in their order
  std::size_t missing = 0;                     // targets whose CopiedProcess::status is not OK
  std::size_t refused = 0;                     // missing targets that ddprun is not allowed to
                                               // trace
};

// kBesideTraining: the targets train and must not be slowed down, so taking stacks takes longer if
// no CPU is free.
enum class StackUrgency { kAtOnce, kBesideTraining };

// Targets with `is_other` must be last in `targets`; they get at most half of the time.
TakenStacks TakeStacks(absl::Span<const StackTarget> targets,
                       std::chrono::steady_clock::time_point deadline,
                       StackUrgency urgency = StackUrgency::kAtOnce);

// ---- the pure part ----

// Adds one process to `tree`. `unwound` has the frames of the process's threads, and perhaps of
// other threads.
void AddProcess(const StackTarget& target, const CopiedProcess& process, const Unwound& unwound,
                StackTree* tree);

// Removes the frames with which every thread begins: _start, __libc_start_main, clone3,
// start_thread, and std::thread's frames before its function.
std::vector<StackFrame> WithoutBeginning(std::vector<StackFrame> outermost_first);

// If the innermost frames are in the C library, keeps only the function that the program called,
// without its line. So all ranks that wait in pthread_cond_wait are at the same place.
std::vector<StackFrame> WithoutLibcInside(std::vector<StackFrame> outermost_first);

// Returns the frames of `native`. If a stack frame contains PythonFrame::loop of one of `python`,
// it is a call of the interpreter's loop, and its frame gets the name of the loop's function.
// Programs without debug information need this: GCC can put most of that function outside of the
// range of its symbol, and then no name is found.
std::vector<StackFrame> WithLoopsNamed(const UnwoundThread& native,
                                       const std::vector<PythonFrame>& python);

// Replaces the interpreter's frames by Python frames. Arguments and result: innermost first.
std::vector<StackFrame> WithPython(const std::vector<StackFrame>& native,
                                   const std::vector<PythonFrame>& python);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_TAKE_STACKS_H_
