// The stack files of hangs in a run's folder: stacks.GENERATION.txt for people,
// stacks.GENERATION.json for programs. Kept for the last few generations that hung. Any thread; may
// block on the disk.
#ifndef DDPRUN_LAUNCHER_AGENT_RUN_HANG_FILES_H_
#define DDPRUN_LAUNCHER_AGENT_RUN_HANG_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

inline constexpr int kHangsKept = 5;

// The path of the text file that WriteHangFiles() writes.
std::string HangTextPath(const std::string& run_folder, Generation generation);

// Writes both files, replacing those of an earlier hang of this generation. Removes the files of
// all but the newest kHangsKept generations. Returns the first error.
absl::Status WriteHangFiles(const std::string& run_folder, const HangStacks& stacks,
                            const std::string& job, Generation generation);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_RUN_HANG_FILES_H_
