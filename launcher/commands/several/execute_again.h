// Executes this program again with its original arguments. The process and its pid stay the same,
// so a service manager notices nothing.
//
// Main thread only, when nothing is served any more. All descriptors but stdin, stdout and stderr
// are closed.
#ifndef DDPRUN_LAUNCHER_COMMANDS_SEVERAL_EXECUTE_AGAIN_H_
#define DDPRUN_LAUNCHER_COMMANDS_SEVERAL_EXECUTE_AGAIN_H_

#include "absl/status/status.h"

namespace ddprun {

// Returns only on failure. OustedBefore() of the new program returns `ousted`.
absl::Status ExecuteAgain(int ousted);

// The value from ExecuteAgain() of the earlier program; 0: there was none. Call it once: it hides
// the value from child processes.
int OustedBefore();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_COMMANDS_SEVERAL_EXECUTE_AGAIN_H_
