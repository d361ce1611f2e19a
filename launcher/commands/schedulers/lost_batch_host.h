// A Slurm job that may lose nodes (--no-kill) and has lost the one with its batch script: nobody is
// left to end it or to put it back into the queue, and Slurm shows it as running until its time is
// over.
#ifndef DDPRUN_LAUNCHER_COMMANDS_SCHEDULERS_LOST_BATCH_HOST_H_
#define DDPRUN_LAUNCHER_COMMANDS_SCHEDULERS_LOST_BATCH_HOST_H_

namespace ddprun {

// For an agent that has given up on its rendezvous, which is on the same node as the script. Waits
// until Slurm has noticed that the node is gone, for ten minutes at most, and requeues this life of
// the job. Returns whether it did; no is also the answer where the node is well.
bool RequeueWithoutBatchHost();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_COMMANDS_SCHEDULERS_LOST_BATCH_HOST_H_
