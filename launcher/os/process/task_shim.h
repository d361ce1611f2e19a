// The task shim: a process that stands in for the agent. Slurm ends all processes on the node when
// the process that it started ends; so does a container when its first process ends. The shim is
// that process.
//
//     slurmstepd ── ddprun-shim ── ddprun (the agent) ──┬── ddprun-guardian ── workers
//                                                       └── ddprun rendezvous (on one node)
//
// When the agent has ended, the rendezvous becomes a child of the shim. The shim ends only after
// this rendezvous, because other nodes may still need it.
//
// The shim restarts a killed agent (SIGKILL, out of memory, a crash) up to three times, but only
// while the job runs on this node and nobody has asked the shim to end. It forwards every signal,
// and ends with the agent's exit code.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_TASK_SHIM_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_TASK_SHIM_H_

namespace ddprun {

// Makes this process the shim, and forks the agent. Returns only in the agent. If the shim is
// killed, the kernel kills the agent. Call it before there is a second thread.
void ContinueUnderTaskShim();

// Called by the agent when the job is over for this node. If the agent is killed afterwards, the
// shim does not restart it, and ends with `exit_code`. Without a shim it does nothing.
void TellTaskShim(int exit_code);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_TASK_SHIM_H_
