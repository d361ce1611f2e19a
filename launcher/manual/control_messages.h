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
     "The process group is up. The worker is asked to save before a planned stop from now on."},
    {Sender::kWorker, control::kStep, "N", "Step N of the training is finished."},
    {Sender::kWorker, control::kCheckpoint, "STEP PATH",
     "The checkpoint of this step is durable on the disk."},
    {Sender::kWorker, control::kCheckpointFailed, "STEP COUNT REASON",
     "That checkpoint is not on the disk, and training goes on. COUNT: such failures in this "
     "process so far."},
    {Sender::kWorker, control::kCheckpointDamaged, "STEP TEXT",
     "That checkpoint is there and not whole. An older one is looked for."},
    {Sender::kWorker, control::kSnapshot, "STEP",
     "The state of this step is whole in the folder DDPRUN_SNAPSHOT_DIR."},
    {Sender::kWorker, control::kSnapshotFailed, "REASON",
     "A snapshot could not be made, and training goes on."},
    {Sender::kWorker, control::kSaved, "TIER MICROSECONDS",
     "How long that took, after CHECKPOINT (TIER: durable) or SNAPSHOT (TIER: memory)."},
    {Sender::kWorker, control::kPhase, "NAME", "What the worker is doing."},
    {Sender::kWorker, control::kTells, "0|1",
     "1: steps will be told, so a hang before the first one is noticed. 0: they will not, after "
     "all."},
    {Sender::kWorker, control::kSaves, "0|1",
     "0: the worker cannot make a checkpoint, so nobody waits for one before a planned stop. 1: it "
     "can, which is assumed of a worker that does not send SAVES."},
    {Sender::kWorker, control::kStore, "HOST:PORT",
     "This process looks for torch's store there, and not on MASTER_PORT."},
    {Sender::kWorker, control::kStraggler, "RANK [TIME OTHERS HOST]",
     "That rank keeps the others waiting: of each step it computes TIME microseconds before its "
     "first gradients are ready, and the others OTHERS. With RANK alone: no longer."},
    {Sender::kWorker, control::kCompares, "1",
     "Of rank 0: it compares how long the ranks' steps take, and tells STRAGGLER where one is "
     "slow."},
    {Sender::kWorker, control::kError, "KIND TEXT",
     "Why the worker exits; sent just before it does. KIND is user, collective, bind, checkpoint, "
     "folder or state."},
    {Sender::kWorker, control::kBye, "1", "The worker is about to exit with 0."},
    {Sender::kWorker, control::kSecret, "1",
     "Asks for the secret of this generation. The answer is SECRET= and 64 hex digits, or nothing "
     "after it where there is none."},
    {Sender::kWorker, control::kStandby, "able|waiting",
     "able: this program could be a warm standby. waiting: it is one, or has left its generation, "
     "and waits for GO."},
    {Sender::kWorker, control::kStays, "1", "The worker understands LEAVE in this generation."},
    {Sender::kWorker, control::kForkServer, "ready|unfit WHY",
     "Of the fork server of Python workers: its modules are imported, and it may be forked or "
     "not."},
    {Sender::kWorker, control::kForked, "N",
     "Of a process that was forked for FORK=N: it waits for GO."},
    {Sender::kWorker, control::kProgress, "1",
     "Asks for the memory that the agent sends with PROGRESS=VERSION after READY."},
    {Sender::kAgent, control::kSave, "1", "A planned stop is coming: make a checkpoint."},
    {Sender::kAgent, control::kProgress, "VERSION",
     "Comes with a descriptor: the memory in which the worker may say what it does, instead of "
     "STEP and PHASE."},
    {Sender::kAgent, control::kLeave, "1",
     "To a worker that stays: the generation is over. Give up the collectives under way, and say "
     "STANDBY=waiting."},
    {Sender::kAgent, control::kGo, "1",
     "To a standby: be a worker. Comes with three descriptors: a file with its environment, "
     "stdout, and stderr."},
    {Sender::kAgent, control::kFork, "N",
     "To the fork server: fork a process that waits. Comes with a descriptor of a file with its "
     "program and arguments."},
};

}  // namespace ddprun::manual

#endif  // DDPRUN_LAUNCHER_MANUAL_CONTROL_MESSAGES_H_
