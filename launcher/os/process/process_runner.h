// ProcessRunner starts worker processes, signals them and collects how they ended.
//
// The agent talks to this interface. GuardedProcessRunner is what ddprun uses: it lets a guardian
// process start the workers, by PosixProcessRunner, which is the mechanism. A runner is passive: it
// watches nothing. Its caller watches `pidfd` on its loop, and does this when it becomes readable:
//
//     runner->SignalGroup(pid, SIGKILL);    // grandchildren; the zombie keeps the pid ours
//     control_socket->ReadToEnd(pid);       // what it said just before
//     log_pump.ReadToEnd();                 // what it wrote just before
//     loop->Unwatch(pidfd);
//     StatusOr<ExitStatus> status = runner->Reap(pidfd);   // from here on the pid may be anyone's
//
// Called from one thread. The kernel kills a worker when the process that is its parent ends
// (PR_SET_PDEATHSIG): the guardian.
//
// Unavailable, from any call: the workers are out of reach, because the guardian was killed. They
// are dead, how they ended is lost, and no other call will succeed.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_RUNNER_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_RUNNER_H_

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/core/exit_status.h"
#include "worker/contract/unique_fd.h"

namespace ddprun {

struct SpawnRequest {
  // The program and its arguments. A program without '/' is looked for in the PATH of `env`, as
  // execvp does; relative PATH entries and programs are relative to `cwd`.
  std::vector<std::string> argv;
  std::vector<std::string> env;  // NAME=value, complete: nothing of the agent's own is added
  std::string cwd;               // empty: the agent's
  std::vector<int> cpus{};       // that it may run on, in order; empty: the agent's
};

struct SpawnedProcess {
  pid_t pid = -1;        // also the id of its process group
  UniqueFd pidfd;        // readable when the process has ended
  UniqueFd stdout_pipe;  // read ends, nonblocking
  UniqueFd stderr_pipe;
  UniqueFd outcome_pipe;  // readable, for SpawnOutcome(), as soon as it is known what became of it
};

// What became of a process that was spawned, from its `outcome_pipe`. nullopt: it is not known yet,
// because the program's file, its folder or PATH has yet to answer. OK: the program runs, or the
// process was killed before; `pidfd` tells which. An error says why the program does not run, once:
// the process has ended or is about to, and is to be reaped or discarded as any other.
//   NotFound           no such program, interpreter or directory (a shell would exit 127)
//   PermissionDenied   it cannot be executed (a shell would exit 126)
//   ResourceExhausted  no room for the arguments
std::optional<absl::Status> SpawnOutcome(int outcome_pipe);

class ProcessRunner {
 public:
  virtual ~ProcessRunner() = default;

  // Begins to start a process, and waits for no disk: SpawnOutcome() tells later whether the
  // program runs. Until then the process can be signalled and discarded as any other.
  // Errors, for the user:
  //   InvalidArgument    argv is empty, or holds a NUL
  //   ResourceExhausted  no more processes or descriptors
  virtual absl::StatusOr<SpawnedProcess> Spawn(const SpawnRequest& request) = 0;

  // Takes over a process that one of those started here has forked and left to the parent of the
  // workers, by ending what was between. It leads a process group of its own. From now on it is as
  // one that Spawn() has started, but the pipes are its own affair: SpawnedProcess has pid and
  // pidfd alone. NotFound: it is no child of the workers' parent, or it has ended and was
  // collected.
  virtual absl::StatusOr<SpawnedProcess> Adopt(pid_t pid) = 0;

  // Sends `signo` to every process in the worker's group. NotFound when nothing is left of it.
  // SIGTERM, SIGINT, SIGQUIT and SIGHUP also continue what is stopped, so that it can end in order.
  // Call it only before Reap(): afterwards the number may belong to somebody else.
  virtual absl::Status SignalGroup(pid_t pid, int signo) = 0;

  // Collects the status of a process that has ended. FailedPrecondition while it is running:
  // it never waits.
  virtual absl::StatusOr<ExitStatus> Reap(int pidfd) = 0;

  // Kills a process and what is in its group, and forgets it: it is not to be reaped. Whoever needs
  // to know that it is gone calls EndOrphans.
  virtual absl::Status Discard(const SpawnedProcess& process) = 0;

  // From `at` on no process that was started here runs, even if the caller is stopped or starved by
  // then; nullopt: no such time. Replaces the time set before. A suspended machine's time counts.
  virtual void SetFence(std::optional<std::chrono::steady_clock::time_point> at) = 0;

  // Kills and collects what ended workers have left behind, also where it has left their group and
  // session. Waits at most `limit` for it to die, and returns who is still there. Call it when no
  // worker runs: a worker that is not reaped yet, and what is below it, is not touched.
  virtual absl::StatusOr<std::vector<pid_t>> EndOrphans(std::chrono::microseconds limit) = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_RUNNER_H_
