// The pipe through which a process's stdout or stderr comes to the agent.
#ifndef DDPRUN_LAUNCHER_OS_OUTPUT_OUTPUT_PIPE_H_
#define DDPRUN_LAUNCHER_OS_OUTPUT_OUTPUT_PIPE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

struct OutputPipe {
  // 1 MiB where the system's limits allow. Closed at exec; the process gets the write end by dup2,
  // which is therefore none of 0, 1 and 2.
  static absl::StatusOr<OutputPipe> Make();
  // The same, as large as the system makes pipes.
  static absl::StatusOr<OutputPipe> MakeSmall();

  UniqueFd read_end;   // nonblocking, for LogPump
  UniqueFd write_end;  // blocking
};

// Moves a descriptor out of 0..2, where a dup2 would run into it. That happens when the agent
// itself was started with one of them closed.
absl::Status MoveAboveStdio(UniqueFd* fd);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_OUTPUT_OUTPUT_PIPE_H_
