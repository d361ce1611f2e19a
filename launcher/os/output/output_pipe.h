// The pipe from a process's stdout or stderr to the agent.
#ifndef DDPRUN_LAUNCHER_OS_OUTPUT_OUTPUT_PIPE_H_
#define DDPRUN_LAUNCHER_OS_OUTPUT_OUTPUT_PIPE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

struct OutputPipe {
  // 1 MiB if the system's limits allow it. Both ends are close-on-exec, and neither is 0, 1 or 2,
  // because the process gets the write end by dup2.
  static absl::StatusOr<OutputPipe> Make();
  // The same, with the system's default size.
  static absl::StatusOr<OutputPipe> MakeSmall();

  UniqueFd read_end;   // nonblocking, for LogPump
  UniqueFd write_end;  // blocking
};

// Moves a descriptor above 0, 1 and 2, where a later dup2 would overwrite it. A descriptor gets
// such a number if the agent was started with one of the three closed.
absl::Status MoveAboveStdio(UniqueFd* fd);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_OUTPUT_OUTPUT_PIPE_H_
