// What becomes of this process when a rank is lost whose end the collectives do not notice.
//
// Collectives of Gloo fail by themselves then. NCCL's do not: a kernel waits for the lost rank for
// ever, and nothing throws. They are aborted instead; that ends the kernels, and leaves in their
// tensors whatever was there. What would go on from such tensors asks here first. And should even
// that not help, as when a thread is in the driver for good, the process is ended.
#ifndef DDPRUN_WORKER_SRC_PEERS_LOST_GROUP_H_
#define DDPRUN_WORKER_SRC_PEERS_LOST_GROUP_H_

#include <chrono>
#include <functional>

#include "worker/src/peers/rank_failure_detector.h"

namespace ddp::internal {

struct LossPlan {
  std::function<void()> abort;  // ends the collectives; may throw, and may never return
  std::function<void()> end;    // ends the process, and says why
  // For this process to throw by itself, before anything is aborted under its hands; and then,
  // before it is ended.
  std::chrono::milliseconds grace{1000};
  std::chrono::milliseconds patience{10000};
};

// A new group, which is well.
void NoteNewGroup();

// From now on the group counts as lost when `failed` says so. NoteEnd() destroys it.
void WatchForFailure(std::function<bool()> failed);

// The group's collectives are about to be ended, because this process leaves it. Any thread.
void NoteLeft();

// Has the plan carried out, on threads of its own, when a rank is lost. `detector` may be null:
// then nobody tells, and NCCL's own watchdog is left.
void ActWhenLost(RankFailureDetector* detector, LossPlan plan);

// From when this is known, which is before anything is aborted. Any thread.
bool GroupIsLost();

// The program has been told of the loss: the rest of the plan is not carried out. Does nothing
// before a loss. Any thread.
void NoteLossReported();

// This process ends, or needs the group no more: whatever is lost from now on, no plan is carried
// out. Any thread.
void NoteEnd();

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_PEERS_LOST_GROUP_H_
