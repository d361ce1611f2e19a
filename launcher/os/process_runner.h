// ProcessRunner starts worker processes, signals them and collects how they ended.
//
// The agent talks to this interface; PosixProcessRunner is the real one, and a fake in the tests
// lets a supervisor be driven without processes. A runner is passive: it watches nothing. Its
// caller watches `pidfd` on its loop, and does this when it becomes readable:
//
//     runner->SignalGroup(pid, SIGKILL);    // grandchildren; the zombie keeps the pid ours
//     control_socket->DrainPeer(pid);       // what it said just before
//     log_pump.Drain();                     // what it wrote just before
//     loop->Unwatch(pidfd);
//     StatusOr<ExitStatus> status = runner->Reap(pidfd);   // from here on the pid may be anyone's
//
// Called from one thread, the same one for the whole life of the workers: a worker is killed by the
// kernel when the thread that spawned it ends (PR_SET_PDEATHSIG).
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_RUNNER_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_RUNNER_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/os/unique_fd.h"
#include "rendezvous/core/exit_status.h"

namespace ddprun {

struct SpawnRequest {
  // The program and its arguments. A program without '/' is looked for in the PATH of `env`, as
  // execvp does; relative PATH entries and programs are relative to `cwd`.
  std::vector<std::string> argv;
  std::vector<std::string> env;  // NAME=value, complete: nothing of the agent's own is added
  std::string cwd;               // empty: the agent's
};

struct SpawnedProcess {
  pid_t pid = -1;        // also the id of its process group
  UniqueFd pidfd;        // readable when the process has ended
  UniqueFd stdout_pipe;  // read ends, nonblocking
  UniqueFd stderr_pipe;
};

class ProcessRunner {
 public:
  virtual ~ProcessRunner() = default;

  // Starts a process. When it returns OK, the program is running (exec has succeeded).
  // Errors say what is wrong with the command, for the user:
  //   NotFound           no such program, interpreter or directory (a shell would exit 127)
  //   PermissionDenied   it cannot be executed (a shell would exit 126)
  //   InvalidArgument    argv is empty, or holds a NUL
  //   ResourceExhausted  no more processes, descriptors or room for the arguments
  virtual absl::StatusOr<SpawnedProcess> Spawn(const SpawnRequest& request) = 0;

  // Sends `signo` to every process in the worker's group. NotFound when nothing is left of it.
  // Call it only before Reap(): afterwards the number may belong to somebody else.
  virtual absl::Status SignalGroup(pid_t pid, int signo) = 0;

  // Collects the status of a process that has ended. FailedPrecondition while it is running:
  // it never waits.
  virtual absl::StatusOr<ExitStatus> Reap(int pidfd) = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_RUNNER_H_
