// Unwinds copied stacks in a process of its own: this program executed again, with limits on memory
// and CPU, which may crash or take too long without harm to anybody. It gets the copies in a memfd
// and answers in another one; its answer is not trusted.
//
// Blocks for at most `time` and a moment; any thread. No fork of the calling process: posix_spawn.
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

// For main() of every program that calls UnwindInHelper(): the exit code where it was started as
// the helper, before it does anything else.
std::optional<int> RunIfUnwindHelper(int argc, char** argv);

struct HelperLimits {
  std::chrono::milliseconds time{5000};  // then it is killed
  std::size_t answer_bytes = std::size_t{64} << 20;
  int nice = 0;  // of its process, see nice(2)
};

struct Unwound {
  std::map<pid_t, UnwoundThread> threads;  // by thread; main threads are unwound first
  // Not OK: why threads are missing, for a person. Those that were done before are there.
  absl::Status status;
};

Unwound UnwindInHelper(const std::vector<CopiedProcess>& processes,
                       const HelperLimits& limits = {});

// ---- for tests and fuzzing ----

// The helper's answer. What is not well formed is refused as a whole; one that was cut off, because
// its writer ended early, keeps the threads before the cut and gets DataLoss.
Unwound ParseAnswer(std::string_view answer);

// The copies as the helper gets them; nullopt where they are not well formed.
std::string FormatCopies(const std::vector<CopiedProcess>& processes);
std::optional<std::vector<CopiedProcess>> ParseCopies(std::string_view bytes);

}  // namespace ddprun::stacks

#endif  // DDPRUN_LAUNCHER_STACKS_UNWIND_HELPER_H_
