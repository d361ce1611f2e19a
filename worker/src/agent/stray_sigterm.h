// Handles a SIGTERM that is not meant for the worker.
#ifndef DDPRUN_WORKER_SRC_AGENT_STRAY_SIGTERM_H_
#define DDPRUN_WORKER_SRC_AGENT_STRAY_SIGTERM_H_

namespace ddp::internal {

// With some settings (proctrack/linuxproc, proctrack/pgid) Slurm sends its SIGTERM to every process
// of a step, also to workers. It is a warning: the agent then asks for a checkpoint, and a dead
// worker makes none. From now on a SIGTERM from the process `agent` ends this process as before;
// any other SIGTERM is ignored. Changes nothing if the program handles or ignores SIGTERM. Call it
// once.
void LeaveStraySigtermTo(int agent);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_STRAY_SIGTERM_H_
