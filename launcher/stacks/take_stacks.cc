#include "launcher/stacks/take_stacks.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "launcher/os/process/process_id.h"
#include "launcher/stacks/process_facts.h"
#include "launcher/stacks/seize.h"

namespace ddprun::stacks {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostThreadNotes = 8;  // per process
constexpr int kNiceBesideTraining = 8;       // a sixth of the CPU time of a process with nice 0
constexpr std::size_t kMostBeginning = 4;    // frames
// For processes other than the ranks' own.
constexpr std::size_t kMostOfOthers = std::size_t{64} << 20;
constexpr std::chrono::milliseconds kPatienceWithOthers{200};
constexpr pid_t kNobody = -1;
constexpr std::string_view kPythonLoop = "_PyEval_EvalFrameDefault";

bool IsBeginning(const StackFrame& frame) {
  static constexpr std::string_view kNames[] = {"_start",
                                                "__libc_start_main",
                                                "__libc_start_main_impl",
                                                "__libc_start_call_main",
                                                "clone",
                                                "__clone",
                                                "clone3",
                                                "__clone3",
                                                "start_thread",
                                                "thread_start"};
  return std::find(std::begin(kNames), std::end(kNames), frame.function) != std::end(kNames);
}

// The caller of std::thread's function; its name is not exported.
bool IsThreadRoutine(const StackFrame& frame) {
  return absl::StartsWith(frame.image, "libstdc++.so") &&
         (frame.function.empty() || frame.function == "execute_native_thread_routine");
}

bool IsLibc(const StackFrame& frame) {
  return absl::StartsWith(frame.image, "libc.so") || absl::StartsWith(frame.image, "libpthread");
}

bool IsInterpreter(const StackFrame& frame) {
  return absl::StartsWith(frame.image, "python3") || absl::StartsWith(frame.image, "libpython3");
}

// Internals of an import statement. They are removed, as in Python's own tracebacks.
bool IsImport(const StackFrame& frame) {
  return absl::StartsWith(frame.file, "<frozen importlib.");
}

// The interpreter's frames between Python frames are not informative. The innermost ones are, such
// as time_sleep, if their names are known and they are not part of the call machinery.
bool IsInformative(const StackFrame& frame) {
  return !frame.function.empty() && !absl::StartsWith(frame.function, "Py") &&
         !absl::StartsWith(frame.function, "_Py");
}

RankTrouble TroubleOf(const CopiedProcess& process) {
  if (process.traced_by != 0) return RankTrouble::kTraced;
  if (absl::IsPermissionDenied(process.status)) return RankTrouble::kNotPermitted;
  return absl::IsNotFound(process.status) ? RankTrouble::kGone : RankTrouble::kIncomplete;
}

std::string NameOf(const CopiedProcess& process, const CopiedThread& thread) {
  if (thread.tid == process.pid) return "main thread";
  return absl::StrCat("thread ", thread.tid, " (", thread.name, ")");
}

// The notes of one target. If ddprun may not trace another process of a rank, this is kIncomplete
// and not kNotPermitted: the rank's own process may still be visible.
class Notes {
 public:
  Notes(const StackTarget& target, const std::string& name, StackTree* tree)
      : target_(target), tree_(tree) {
    if (!target.is_other) return;
    prefix_ = absl::StrCat("process ", target.pid, name.empty() ? "" : " (" + name + ")", ": ");
  }

  void Add(RankTrouble trouble, const std::string& text) {
    const bool refused = target_.is_other && trouble == RankTrouble::kNotPermitted;
    tree_->Add(RankNote{target_.rank, refused ? RankTrouble::kIncomplete : trouble,
                        absl::StrCat(prefix_, text)});
  }

 private:
  const StackTarget& target_;
  std::string prefix_;
  StackTree* tree_;
};

// Notes what threads wait for: the first ones in disk wait or at a file, a main thread that waits
// for a socket, and each main thread without a stack.
void AddWaits(const CopiedProcess& process, Notes* notes) {
  std::size_t count = 0;
  for (const CopiedThread& thread : process.threads) {
    const bool main = thread.tid == process.pid;
    const bool disk = thread.state == 'D';
    const bool file = absl::StrContains(thread.call, "(/");
    const bool peer = main && absl::StrContains(thread.call, "(socket to ");
    const bool all_that_is_known = main && !process.status.ok();
    if (!(disk || file || peer || all_that_is_known) || count++ >= kMostThreadNotes) continue;
    notes->Add(disk ? RankTrouble::kDiskWait : RankTrouble::kInCall,
               absl::StrCat(NameOf(process, thread), ": ",
                            DescribeWait(thread.state, thread.call, thread.wchan)));
  }
}

// A thread that was skipped still has a place in the tree.
std::vector<StackFrame> FramesFromOutside(const CopiedThread& thread) {
  StackFrame frame;
  frame.function = thread.call.substr(0, thread.call.find('('));
  if (frame.function.empty()) frame.function = "(not stopped)";
  if (thread.state == 'D') frame.function += " in disk wait";
  frame.image = "kernel";
  return {std::move(frame)};
}

// `frames`: outermost first.
void AddThread(const StackTarget& target, const CopiedProcess& process, const CopiedThread& thread,
               std::vector<StackFrame> frames, StackTree* tree) {
  const bool main = thread.tid == process.pid && !target.is_other;
  // Without the pid, so that equal processes of many ranks share a branch.
  if (target.is_other)
    frames.insert(frames.begin(), StackFrame{"process " + process.name, "", 0, "kernel"});
  tree->Add(target.rank, main ? ThreadKind::kMain : ThreadKind::kOther, frames);
}

// False: the pid belongs to another process by now. Called before and after the copy.
bool IsStill(const StackTarget& target) {
  return target.started == 0 || ProcessIdOf(target.pid).started == target.started;
}

std::vector<CopiedProcess> CopyEach(absl::Span<const StackTarget> targets,
                                    Clock::time_point deadline, const SeizeOptions& options) {
  std::vector<pid_t> pids;
  for (const StackTarget& target : targets) pids.push_back(IsStill(target) ? target.pid : kNobody);
  std::vector<CopiedProcess> processes = CopyStacks(pids, deadline, options);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (pids[i] != kNobody && IsStill(targets[i])) continue;
    processes[i] = {};
    processes[i].pid = targets[i].pid;
    processes[i].status = absl::NotFoundError("it has ended");
  }
  return processes;
}

// Copies the ranks' own processes first, so that the others take no time from them.
std::vector<CopiedProcess> CopyTargets(absl::Span<const StackTarget> targets,
                                       Clock::time_point deadline) {
  const auto half = Clock::now() + (deadline - Clock::now()) / 2;
  const auto other = std::find_if(targets.begin(), targets.end(),
                                  [](const StackTarget& target) { return target.is_other; });
  const auto ranks = static_cast<std::size_t>(other - targets.begin());
  std::vector<CopiedProcess> processes = CopyEach(targets.first(ranks), deadline, {});
  SeizeOptions options;
  options.total_bytes = kMostOfOthers;
  options.patience = kPatienceWithOthers;
  std::vector<CopiedProcess> others = CopyEach(targets.subspan(ranks), half, options);
  std::move(others.begin(), others.end(), std::back_inserter(processes));
  return processes;
}

}  // namespace

std::vector<StackFrame> WithoutBeginning(std::vector<StackFrame> outermost_first) {
  // Names of frames before __libc_start_main are usually stripped. Without libc6-dbg, the names of
  // start_thread, clone3 and __libc_start_call_main are stripped, too.
  const auto end = outermost_first.begin() +
                   static_cast<std::ptrdiff_t>(std::min(kMostBeginning, outermost_first.size()));
  auto first = outermost_first.begin();
  for (auto frame = first; frame != end; ++frame) {
    const bool stripped = frame == first && IsLibc(*frame) && frame->function.empty();
    if (stripped || IsBeginning(*frame) || IsThreadRoutine(*frame)) first = frame + 1;
  }
  // Keep them if the thread has no other frames.
  if (first != outermost_first.end()) outermost_first.erase(outermost_first.begin(), first);
  return outermost_first;
}

std::vector<StackFrame> WithoutLibcInside(std::vector<StackFrame> outermost_first) {
  auto first = outermost_first.end();
  while (first != outermost_first.begin() && IsLibc(*(first - 1))) --first;
  if (first == outermost_first.end()) return outermost_first;
  // The outermost frame with a name.
  const auto named = std::find_if(first, outermost_first.end(),
                                  [](const StackFrame& frame) { return !frame.function.empty(); });
  if (named != outermost_first.end()) *first = *named;
  first->file.clear();
  first->line = 0;
  outermost_first.erase(first + 1, outermost_first.end());
  return outermost_first;
}

std::vector<StackFrame> WithLoopsNamed(const UnwoundThread& native,
                                       const std::vector<PythonFrame>& python) {
  std::vector<StackFrame> frames = native.frames;
  const std::vector<std::uint64_t>& at = native.stack_pointers;
  for (const PythonFrame& each : python) {
    for (std::size_t i = 0; i + 1 < at.size(); ++i) {
      if (at[i] != 0 && at[i] <= each.loop && each.loop < at[i + 1]) {
        frames[i].function = kPythonLoop;
      }
    }
  }
  return frames;
}

std::vector<StackFrame> WithPython(const std::vector<StackFrame>& native,
                                   const std::vector<PythonFrame>& python) {
  if (python.empty()) return native;
  std::vector<StackFrame> frames;
  auto next = python.begin();
  bool in_python = false;
  for (const StackFrame& frame : native) {
    if (frame.function == kPythonLoop) {
      in_python = true;
      while (next != python.end()) {
        if (!IsImport(next->frame)) frames.push_back(next->frame);
        if ((next++)->entered_from_c) break;
      }
    } else if (!IsInterpreter(frame) || (!in_python && IsInformative(frame))) {
      frames.push_back(frame);
    }
  }
  for (; next != python.end(); ++next) {
    if (!IsImport(next->frame)) frames.push_back(next->frame);
  }
  return frames;
}

void AddProcess(const StackTarget& target, const CopiedProcess& process, const Unwound& unwound,
                StackTree* tree) {
  if (target.is_other && absl::IsNotFound(process.status)) return;  // like an ended thread
  Notes notes(target, process.name, tree);
  if (process.stopped)
    notes.Add(RankTrouble::kStopped, "stopped by a signal (SIGCONT continues it)");
  if (!process.status.ok()) notes.Add(TroubleOf(process), std::string(process.status.message()));
  if (!process.not_held.empty()) notes.Add(RankTrouble::kIncomplete, process.not_held);
  if (!process.python.empty()) notes.Add(RankTrouble::kIncomplete, process.python);
  AddWaits(process, &notes);
  if (!process.status.ok()) return;
  std::size_t missing = 0;
  std::string why;
  for (const CopiedThread& thread : process.threads) {
    if (absl::IsNotFound(thread.copied)) continue;  // it ended meanwhile
    std::vector<StackFrame> frames;
    const auto found = unwound.threads.find(thread.tid);
    if (absl::IsPermissionDenied(thread.copied)) {
      // The process wrote only Python frames; a note says so.
      if (thread.python_frames.empty()) continue;
      if (!thread.call.empty()) frames = FramesFromOutside(thread);
    } else if (!thread.copied.ok()) {
      frames = FramesFromOutside(thread);
      why = std::string(thread.copied.message());
      ++missing;
    } else if (found == unwound.threads.end()) {
      why = std::string(unwound.status.message());
      ++missing;
    } else {
      frames = WithLoopsNamed(found->second, thread.python_frames);
      if (!found->second.complete && !found->second.error.empty()) {
        why = found->second.error;
        ++missing;
      }
    }
    frames = WithPython(frames, thread.python_frames);
    std::reverse(frames.begin(), frames.end());
    if (frames.empty()) continue;
    AddThread(target, process, thread, WithoutLibcInside(WithoutBeginning(std::move(frames))),
              tree);
  }
  if (missing > 0) {
    notes.Add(RankTrouble::kIncomplete, absl::StrCat("frames are missing in ", missing, " of ",
                                                     process.threads.size(), " threads: ", why));
  }
}

TakenStacks TakeStacks(absl::Span<const StackTarget> targets, Clock::time_point deadline,
                       StackUrgency urgency) {
  std::vector<CopiedProcess> processes = CopyTargets(targets, deadline);
  HelperLimits limits;
  limits.time =
      std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()),
                 std::chrono::milliseconds(1), limits.time);
  if (urgency == StackUrgency::kBesideTraining) limits.nice = kNiceBesideTraining;
  const bool any = std::any_of(processes.begin(), processes.end(), [](const auto& process) {
    return process.status.ok() &&
           std::any_of(process.threads.begin(), process.threads.end(),
                       [](const CopiedThread& thread) { return thread.copied.ok(); });
  });
  const Unwound unwound = any ? UnwindInHelper(processes, limits) : Unwound();
  TakenStacks taken;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    AddProcess(targets[i], processes[i], unwound, &taken.tree);
    taken.held.push_back(processes[i].held);
    taken.missing += processes[i].status.ok() ? 0 : 1;
    taken.refused += absl::IsPermissionDenied(processes[i].status) ? 1 : 0;
  }
  return taken;
}

}  // namespace ddprun::stacks
