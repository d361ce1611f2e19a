// Executes this program again with the arguments it was started with, in the same process: the
// service manager, and whoever knows its pid, notice nothing.
//
// The main thread's, when nothing is served any more. All descriptors but stdin, stdout and stderr
// are closed.
#ifndef DDPRUN_LAUNCHER_COMMANDS_SEVERAL_EXECUTE_AGAIN_H_
#define DDPRUN_LAUNCHER_COMMANDS_SEVERAL_EXECUTE_AGAIN_H_

#include "absl/status/status.h"

namespace ddprun {

// Returns only where it fails. `ousted` is what OustedBefore() of the new program returns.
absl::Status ExecuteAgain(int ousted);

// What the program that executed us has passed on; 0: nobody did. Once: the children of this
// process do not see it.
int OustedBefore();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_COMMANDS_SEVERAL_EXECUTE_AGAIN_H_
