// The pipe from a process's stdout or stderr to the agent.
#ifndef DDPRUN_LAUNCHER_OS_OUTPUT_OUTPUT_PIPE_H_
#define DDPRUN_LAUNCHER_OS_OUTPUT_OUTPUT_PIPE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

struct OutputPipe {
  // 1 MiB if the system's limits allow it. Both ends are close-on-exec. The write end is not 0, 1
  // or 2, because the process gets it by dup2.
  static absl::StatusOr<OutputPipe> Make();
  // The same, with the system's default size.
  static absl::StatusOr<OutputPipe> MakeSmall();

  UniqueFd read_end;   // nonblocking, for LogPump
  UniqueFd write_end;  // blocking
};

// If the descriptor is 0, 1 or 2, replaces it by a copy with a higher number. Otherwise a later
// dup2 to 0, 1 or 2 would overwrite it. A descriptor gets such a number if the agent was started
// with one of the three closed.
absl::Status MoveAboveStdio(UniqueFd* fd);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_OUTPUT_OUTPUT_PIPE_H_
