// The task shim: a process that stands in for the agent. Slurm ends all processes on the node when
// the process that it started ends; so does a container when its first process ends. The shim is
// that process.
//
//     slurmstepd ── ddprun-shim ──┬── ddprun (the agent) ── ddprun-guardian ── workers
//                                   └── ddprun rendezvous, when the agent has ended
//
// It restarts a killed agent (SIGKILL, out of memory, a crash) a few times, but only while the job
// runs on this node. It forwards every signal. It ends with the agent's exit code. If the agent has
// started a rendezvous, the shim ends only after the rendezvous, because other nodes may still need
// it.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_TASK_SHIM_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_TASK_SHIM_H_

namespace ddprun {

// Makes this process the shim, and forks the agent. Returns only in the agent. The agent is killed
// when the shim is killed. Call it before there is a second thread.
void ContinueUnderTaskShim();

// Called by the agent when the job is over for this node. If the agent is killed afterwards, the
// shim does not restart it, and ends with `exit_code`. Without a shim it does nothing.
void TellTaskShim(int exit_code);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_TASK_SHIM_H_
