// The stacks of hangs in a run's folder: stacks.GENERATION.txt for people and
// stacks.GENERATION.json for programs, of the newest few generations that hung. Any thread; waits
// for the disk.
#ifndef DDPRUN_LAUNCHER_AGENT_RUN_HANG_FILES_H_
#define DDPRUN_LAUNCHER_AGENT_RUN_HANG_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

inline constexpr int kHangsKept = 5;

// Where WriteHangFiles() puts the text.
std::string HangTextPath(const std::string& run_folder, Generation generation);

// Writes both files, in place of those of an earlier hang of this generation, and removes those of
// all but the newest kHangsKept generations. The first error.
absl::Status WriteHangFiles(const std::string& run_folder, const HangStacks& stacks,
                            const std::string& job, Generation generation);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_RUN_HANG_FILES_H_
