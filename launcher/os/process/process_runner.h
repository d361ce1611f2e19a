// ProcessRunner starts, signals and reaps worker processes.
//
// The agent uses this interface through GuardedProcessRunner: a guardian process starts the
// workers, with PosixProcessRunner. A runner is passive and watches nothing. The caller watches
// `pidfd` on its loop, and does this when `pidfd` becomes readable:
//
//     runner->SignalGroup(pid, SIGKILL);    // grandchildren; the zombie reserves the pid
//     control_socket->ReadToEnd(pid);       // its last messages
//     log_pump.ReadToEnd();                 // its last output
//     loop->Unwatch(pidfd);
//     StatusOr<ExitStatus> status = runner->Reap(pidfd);   // from here on the pid may be reused
//
// One thread. The kernel kills a worker when its parent, the guardian, ends (PR_SET_PDEATHSIG).
//
// Each call except SignalGroup and SetFence returns Unavailable if the guardian was killed, or did
// not answer for 10 s: the workers are dead, their exit statuses are lost, and no further call will
// succeed.
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
  // The program and its arguments. A program without '/' is searched in the PATH of `env`, as by
  // execvp. Relative PATH entries and programs are relative to `cwd`.
  std::vector<std::string> argv;
  std::vector<std::string> env;  // NAME=value, complete: nothing is added
  std::string cwd;               // empty: the agent's
  std::vector<int> cpus{};       // allowed CPUs, in ascending order; empty: the agent's
};

struct SpawnedProcess {
  pid_t pid = -1;        // also the id of its process group
  UniqueFd pidfd;        // readable once the process has ended
  UniqueFd stdout_pipe;  // read ends, nonblocking
  UniqueFd stderr_pipe;
  UniqueFd outcome_pipe;  // for SpawnOutcome(); readable once the outcome is known
};

// The outcome of a spawn, from its `outcome_pipe`. nullopt: not known yet, because the disk of the
// program's file, its folder or PATH has not answered. OK: the program runs, or the process was
// killed before it could; in the second case `pidfd` is readable. An error is returned once, and
// says why the program does not run. The process has then ended or is about to end; reap or discard
// it like any other process.
//   NotFound           no such program, interpreter or directory (a shell would exit 127)
//   PermissionDenied   it cannot be executed (a shell would exit 126)
//   ResourceExhausted  no room for the arguments
std::optional<absl::Status> SpawnOutcome(int outcome_pipe);

class ProcessRunner {
 public:
  virtual ~ProcessRunner() = default;

  // Begins to start a process, without waiting for a disk. SpawnOutcome() says later whether the
  // program runs. Until then the process can be signalled and discarded like any other. Errors, for
  // the user:
  //   InvalidArgument    argv is empty, or holds a NUL
  //   ResourceExhausted  no more processes or descriptors
  //   DeadlineExceeded   the fence is over (SetFence)
  virtual absl::StatusOr<SpawnedProcess> Spawn(const SpawnRequest& request) = 0;

  // Takes over a process that a spawned process forked. The forked process must lead its own
  // process group. Its own parent must have ended, so that it is a child of the workers' parent.
  // From now on it counts as spawned, but without pipes: SpawnedProcess has only pid and pidfd.
  // NotFound: it leads no process group, is no child of the workers' parent, or has ended and was
  // reaped.
  virtual absl::StatusOr<SpawnedProcess> Adopt(pid_t pid) = 0;

  // Sends `signo` to every process in the worker's group. NotFound: the group is empty. SIGTERM,
  // SIGINT, SIGQUIT and SIGHUP also continue stopped processes, so that they can end properly. Call
  // it only before Reap(): after that, the group's number may belong to another group.
  virtual absl::Status SignalGroup(pid_t pid, int signo) = 0;

  // Reaps an ended process and returns its status. Never waits; FailedPrecondition: the process is
  // running.
  virtual absl::StatusOr<ExitStatus> Reap(int pidfd) = 0;

  // Kills a process and its group, and forgets it: do not reap it. To make sure that it is gone,
  // call EndOrphans.
  virtual absl::Status Discard(const SpawnedProcess& process) = 0;

  // At time `at` all processes that were started here are killed, even if the caller is then
  // stopped or gets no CPU. After that no process starts until a later fence is set. nullopt: no
  // fence. Replaces the earlier time. Time while the machine is suspended counts.
  virtual void SetFence(std::optional<std::chrono::steady_clock::time_point> at) = 0;

  // Kills and reaps the processes that ended workers left behind, even if they left the worker's
  // group and session. Waits at most `limit`, and returns the remaining processes. It spares each
  // worker that was not reaped, and the worker's descendants. So call it when no worker runs.
  virtual absl::StatusOr<std::vector<pid_t>> EndOrphans(std::chrono::microseconds limit) = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_RUNNER_H_
