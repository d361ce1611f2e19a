// The task shim: a process that stands in the agent's place where whoever started it ends
// everything on this node as soon as it has ended, as Slurm does with a step, and a container does
// with all of its processes when the first one ends.
//
//     slurmstepd ── ddprun-shim ──┬── ddprun (the agent) ── ddprun-guardian ── workers
//                                   └── ddprun rendezvous, when the agent has ended
//
// It starts an agent that was killed (SIGKILL, out of memory, a crash) again, a few times; hands on
// every signal; ends with the agent's exit code, but not before the rendezvous that the agent has
// started: the other nodes may need it longer.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_TASK_SHIM_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_TASK_SHIM_H_

namespace ddprun {

// Returns in a child of this process, which is killed when its parent is; this process never
// returns from it. Call it before there is a second thread.
void ContinueUnderTaskShim();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_TASK_SHIM_H_
