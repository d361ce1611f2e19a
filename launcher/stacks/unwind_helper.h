// Unwinds copied stacks in a helper process: this program executed again, with limits on memory and
// CPU. If the helper crashes or takes too long, this does no harm. The helper gets the copies in a
// memfd and answers in another memfd. Its answer is not trusted.
//
// Blocks for at most HelperLimits::time and a moment. Any thread. Uses posix_spawn, not fork.
#ifndef DDPRUN_LAUNCHER_STACKS_UNWIND_HELPER_H_
#define DDPRUN_LAUNCHER_STACKS_UNWIND_HELPER_H_

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "launcher/stacks/copied_stacks.h"

namespace ddprun::stacks {

// main() of every program that calls UnwindInHelper() must call this first. If the program was
// started as the helper, returns its exit code.
std::optional<int> RunIfUnwindHelper(int argc, char** argv);

struct HelperLimits {
  std::chrono::milliseconds time{5000};  // then it is killed
  std::size_t answer_bytes = std::size_t{64} << 20;
  int nice = 0;  // of the helper, see nice(2)
};

struct Unwound {
  std::map<pid_t, UnwoundThread> threads;  // main threads are unwound first
  // Not OK: why threads are missing, for people. Threads that were unwound before the failure are
  // present.
  absl::Status status;
};

Unwound UnwindInHelper(const std::vector<CopiedProcess>& processes,
                       const HelperLimits& limits = {});

// ---- for tests and fuzzing ----

// Parses the helper's answer. Refuses a malformed answer as a whole. If the answer is cut off
// because the helper ended early, the result has the threads before the cut, and DataLoss.
Unwound ParseAnswer(std::string_view answer);

// The copies in the form that the helper gets; nullopt: malformed.
std::string FormatCopies(const std::vector<CopiedProcess>& processes);
std::optional<std::vector<CopiedProcess>> ParseCopies(std::string_view bytes);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_UNWIND_HELPER_H_
