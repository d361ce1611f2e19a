// If a rank is lost and the collectives do not fail, this code ends this process's collectives, or
// the process.
//
// Gloo's collectives fail by themselves when a rank is lost. NCCL's do not: a kernel waits for the
// lost rank for ever, and nothing throws. So they are aborted. An abort ends the kernels and leaves
// arbitrary values in their tensors. Code that would use such a tensor must call GroupIsLost()
// first. If the abort does not help, for example because a thread is stuck in the driver, the
// process is ended.
#ifndef DDPRUN_WORKER_SRC_PEERS_LOST_GROUP_H_
#define DDPRUN_WORKER_SRC_PEERS_LOST_GROUP_H_

#include <chrono>
#include <functional>

#include "worker/src/peers/rank_failure_detector.h"

namespace ddp::internal {

struct LossPlan {
  std::function<void()> abort;  // ends the collectives; may throw, or never return
  std::function<void()> end;    // ends the process with an error message
  // `grace`: this process has this time to throw by itself before anything is aborted. `patience`:
  // the process is ended this long after the abort.
  std::chrono::milliseconds grace{1000};
  std::chrono::milliseconds patience{10000};
};

// Call it when a new group begins. No rank of the new group is lost.
void NoteNewGroup();

// From now on the group also counts as lost if `failed` returns true. NoteEnd() destroys `failed`.
void WatchForFailure(std::function<bool()> failed);

// Call it when this process leaves the group, before it ends the group's collectives. Any thread.
void NoteLeft();

// When a rank is lost, carries out `plan` on threads of its own. Does nothing if `detector` or
// `plan.abort` is null. Then a loss is not noticed here, and only NCCL's own watchdog remains.
void ActWhenLost(RankFailureDetector* detector, LossPlan plan);

// True once the loss is known. The loss is known before anything is aborted. Any thread.
bool GroupIsLost();

// Call it when the program knows of the loss: the rest of the plan is not carried out. Does nothing
// before a loss. Any thread.
void NoteLossReported();

// Call it when this process ends or no longer needs the group: later losses abort and end nothing.
// Any thread.
void NoteEnd();

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_PEERS_LOST_GROUP_H_
