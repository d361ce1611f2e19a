// SIGTERM that is not for a worker.
#ifndef DDPRUN_WORKER_SRC_AGENT_STRAY_SIGTERM_H_
#define DDPRUN_WORKER_SRC_AGENT_STRAY_SIGTERM_H_

namespace ddp::internal {

// With some settings (proctrack/linuxproc, proctrack/pgid) Slurm sends its SIGTERM to every process
// of a step, the workers too. It is meant as a warning, and the agent asks for a checkpoint then,
// which no dead worker makes. From now on a SIGTERM of the agent, `agent`, ends this process as
// before, and any other one is left to the agent. Nothing changes where the program has a handler
// of its own or ignores SIGTERM. Once in a process.
void LeaveStraySigtermTo(int agent);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_STRAY_SIGTERM_H_
