// Ignores a SIGTERM that did not come from the agent.
#ifndef DDPRUN_WORKER_SRC_AGENT_STRAY_SIGTERM_H_
#define DDPRUN_WORKER_SRC_AGENT_STRAY_SIGTERM_H_

namespace ddp::internal {

// With some settings (proctrack/linuxproc, proctrack/pgid) Slurm sends its SIGTERM to every process
// of a job step, also to workers. This SIGTERM is a warning, after which the agent asks for a
// checkpoint; a dead worker cannot make one. After this call a SIGTERM from the process `agent`
// still ends this process; any other SIGTERM is ignored. The call changes nothing if the program
// handles or ignores SIGTERM. Only the first call has an effect.
void LeaveStraySigtermTo(int agent);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_STRAY_SIGTERM_H_
