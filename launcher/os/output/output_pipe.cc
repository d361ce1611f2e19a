#include "launcher/os/output/output_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace ddprun {
namespace {

constexpr int kPipeBytes = 1 << 20;

}  // namespace

absl::Status MoveAboveStdio(UniqueFd* fd) {
  if (fd->get() > 2) return absl::OkStatus();
  UniqueFd moved(::fcntl(fd->get(), F_DUPFD_CLOEXEC, 3));
  if (!moved.valid()) return absl::ErrnoToStatus(errno, "cannot duplicate a descriptor");
  *fd = std::move(moved);
  return absl::OkStatus();
}

absl::StatusOr<OutputPipe> OutputPipe::MakeSmall() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a pipe for a worker's output (ulimit -n)");
  }
  OutputPipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  if (absl::Status moved = MoveAboveStdio(&pipe.write_end); !moved.ok()) return moved;
  ::fcntl(pipe.read_end.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

absl::StatusOr<OutputPipe> OutputPipe::Make() {
  absl::StatusOr<OutputPipe> pipe = MakeSmall();
  if (pipe.ok()) ::fcntl(pipe->read_end.get(), F_SETPIPE_SZ, kPipeBytes);  // best effort
  return pipe;
}

}  // namespace ddprun
