// For a Slurm job that may lose nodes (--no-kill) and has lost the node with its batch script. Then
// no process can end or requeue the job, and Slurm shows it as running until its time limit.
#ifndef DDPRUN_LAUNCHER_COMMANDS_SCHEDULERS_LOST_BATCH_HOST_H_
#define DDPRUN_LAUNCHER_COMMANDS_SCHEDULERS_LOST_BATCH_HOST_H_

namespace ddprun {

// For an agent that has given up on its rendezvous, which runs on the node of the batch script.
// Waits up to eleven minutes until Slurm has noticed the loss of the node, and requeues the job.
// False: not requeued, for example because the node is well.
bool RequeueWithoutBatchHost();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_COMMANDS_SCHEDULERS_LOST_BATCH_HOST_H_
