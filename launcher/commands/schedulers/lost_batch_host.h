// For a Slurm job with --no-kill that has lost the node of its batch script. Then no process is
// left that could end or requeue the job, and Slurm shows it as running until its time limit.
#ifndef DDPRUN_LAUNCHER_COMMANDS_SCHEDULERS_LOST_BATCH_HOST_H_
#define DDPRUN_LAUNCHER_COMMANDS_SCHEDULERS_LOST_BATCH_HOST_H_

namespace ddprun {

// Call it when an agent gives up because its rendezvous, on the node of the batch script, does not
// answer. Waits for about 11 minutes at most until Slurm has noticed the loss of that node, and
// requeues the job. False: not requeued, for example because the node is well.
bool RequeueWithoutBatchHost();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_COMMANDS_SCHEDULERS_LOST_BATCH_HOST_H_
