// Ends this process's collectives, or the process, if a rank is lost and the collectives do not
// fail.
//
// Gloo's collectives fail by themselves when a rank is lost. NCCL's do not: a kernel waits for the
// lost rank for ever, and nothing throws. So they are aborted. An abort ends the kernels and leaves
// arbitrary values in their tensors; code that would use such a tensor calls GroupIsLost() first.
// If an abort does not help, for example because a thread is stuck in the driver, the process is
// ended.
#ifndef DDPRUN_WORKER_SRC_PEERS_LOST_GROUP_H_
#define DDPRUN_WORKER_SRC_PEERS_LOST_GROUP_H_

#include <chrono>
#include <functional>

#include "worker/src/peers/rank_failure_detector.h"

namespace ddp::internal {

struct LossPlan {
  std::function<void()> abort;  // ends the collectives; may throw, may never return
  std::function<void()> end;    // ends the process with an error message
  // `grace`: time for this process to throw by itself, before anything is aborted. `patience`: then
  // the time from the abort until the process is ended.
  std::chrono::milliseconds grace{1000};
  std::chrono::milliseconds patience{10000};
};

// A new group begins. No rank of it is lost.
void NoteNewGroup();

// From now on the group also counts as lost if `failed` returns true. NoteEnd() destroys `failed`.
void WatchForFailure(std::function<bool()> failed);

// This process leaves the group, and the group's collectives are about to be ended. Any thread.
void NoteLeft();

// Carries out the plan on its own threads when a rank is lost. `detector` may be null: then the
// loss is not noticed here, and only NCCL's own watchdog remains.
void ActWhenLost(RankFailureDetector* detector, LossPlan plan);

// True once the loss is known, which is before anything is aborted. Any thread.
bool GroupIsLost();

// The program knows of the loss: the rest of the plan is not carried out. Does nothing before a
// loss. Any thread.
void NoteLossReported();

// This process ends, or needs the group no longer: later losses start no plan. Any thread.
void NoteEnd();

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_PEERS_LOST_GROUP_H_
