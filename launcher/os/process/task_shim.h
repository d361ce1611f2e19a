// The task shim: a process in the agent's place. It is needed where the end of the started process
// ends all processes on the node: Slurm does so at the end of a step, a container at the end of its
// first process.
//
//     slurmstepd ── ddprun-shim ──┬── ddprun (the agent) ── ddprun-guardian ── workers
//                                   └── ddprun rendezvous, when the agent has ended
//
// It restarts a killed agent (SIGKILL, out of memory, a crash) a few times and forwards every
// signal. It ends with the agent's exit code, but only after the rendezvous that the agent started,
// because other nodes may need that longer.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_TASK_SHIM_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_TASK_SHIM_H_

namespace ddprun {

// Returns in a child of this process. The child is killed when this process is; this process itself
// never returns. Call it before there is a second thread.
void ContinueUnderTaskShim();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_TASK_SHIM_H_
