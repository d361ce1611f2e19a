// The messages of the control socket (worker/contract/control.h) for the manual. A test compares
// this table with that header.
#ifndef DDPRUN_LAUNCHER_MANUAL_CONTROL_MESSAGES_H_
#define DDPRUN_LAUNCHER_MANUAL_CONTROL_MESSAGES_H_

#include "worker/contract/control.h"

namespace ddprun::manual {

enum class Sender { kWorker, kAgent };

struct ControlMessageRow {
  Sender sender;
  const char* key;
  const char* value;  // the text after the =
  const char* what;   // a sentence or more
};

inline constexpr ControlMessageRow kControlMessages[] = {
    {Sender::kWorker, control::kReady, "1",
     "The process group is up. From now on the agent asks this worker to save before a planned "
     "stop."},
    {Sender::kWorker, control::kStep, "N", "Step N of the training is finished."},
    {Sender::kWorker, control::kCheckpoint, "STEP PATH",
     "The checkpoint of this step is durable on the disk."},
    {Sender::kWorker, control::kCheckpointFailed, "STEP COUNT REASON",
     "The checkpoint of this step is not on the disk. Training continues. COUNT: failures so far "
     "in this process."},
    {Sender::kWorker, control::kCheckpointDamaged, "STEP TEXT",
     "The checkpoint of this step exists but is damaged. An older one is tried."},
    {Sender::kWorker, control::kSnapshot, "STEP",
     "The snapshot of this step is complete in the folder DDPRUN_SNAPSHOT_DIR."},
    {Sender::kWorker, control::kSnapshotFailed, "REASON",
     "A snapshot could not be made. Training continues."},
    {Sender::kWorker, control::kSaved, "TIER MICROSECONDS",
     "Sent after CHECKPOINT (TIER: durable) or SNAPSHOT (TIER: memory): time from the copy of the "
     "state until it was complete."},
    {Sender::kWorker, control::kPhase, "NAME", "What the worker is doing."},
    {Sender::kWorker, control::kTells, "0|1",
     "1: the worker will report its steps, so a hang before the first step is noticed. 0: it will "
     "not report them."},
    {Sender::kWorker, control::kSaves, "0|1",
     "0: the worker cannot make a checkpoint, so nobody waits for one before a planned stop. 1: it "
     "can. A worker that does not send SAVES is assumed to be able to."},
    {Sender::kWorker, control::kStore, "HOST:PORT",
     "This process looks for torch's store at this address, and not on MASTER_PORT."},
    {Sender::kWorker, control::kStraggler, "RANK [TIME OTHERS HOST]",
     "This rank keeps the others waiting. In each step it needs TIME microseconds until its first "
     "gradients are ready; other ranks need OTHERS microseconds. RANK alone: this rank no longer "
     "keeps the others waiting."},
    {Sender::kWorker, control::kCompares, "1",
     "From rank 0: it compares the step times of the ranks, and sends STRAGGLER if a rank is "
     "slow."},
    {Sender::kWorker, control::kError, "KIND TEXT",
     "Why the worker exits; sent just before it does. KIND is user, collective, bind, checkpoint, "
     "folder or state."},
    {Sender::kWorker, control::kBye, "1", "The worker is about to exit with 0."},
    {Sender::kWorker, control::kSecret, "1",
     "Asks for the secret of this generation. The agent answers SECRET= and 64 hex digits, or "
     "SECRET= alone if there is no secret."},
    {Sender::kWorker, control::kStandby, "able|waiting",
     "able: this program could be a warm standby. waiting: it is a warm standby, or a worker that "
     "has left its generation, and waits for GO."},
    {Sender::kWorker, control::kStays, "1", "The worker obeys LEAVE in this generation."},
    {Sender::kWorker, control::kForkServer, "ready|unfit WHY",
     "From the fork server of Python workers, which has imported its modules. ready: it may be "
     "forked. unfit: it must not be forked."},
    {Sender::kWorker, control::kForked, "N",
     "From a process that was forked for FORK=N: it waits for GO."},
    {Sender::kWorker, control::kProgress, "1",
     "Asks for the shared memory that the agent otherwise sends after READY, with "
     "PROGRESS=VERSION."},
    {Sender::kAgent, control::kSave, "1", "A planned stop is coming: make a checkpoint."},
    {Sender::kAgent, control::kProgress, "VERSION",
     "Comes with a descriptor of shared memory. The worker may report its progress there instead "
     "of with STEP and PHASE."},
    {Sender::kAgent, control::kLeave, "1",
     "To a worker that has sent STAYS: the generation is over. Give up running collectives, and "
     "send STANDBY=waiting."},
    {Sender::kAgent, control::kGo, "1",
     "To a warm standby: become a worker. Comes with three descriptors: a file with the "
     "environment, stdout, and stderr."},
    {Sender::kAgent, control::kFork, "N",
     "To the fork server: fork a process that waits for GO. Comes with a descriptor of a file with "
     "the program and its arguments."},
};

}  // namespace ddprun::manual

#endif  // DDPRUN_LAUNCHER_MANUAL_CONTROL_MESSAGES_H_
