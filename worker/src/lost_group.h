// Whether this process has given up its process group because a rank was lost.
//
// Collectives of Gloo fail by themselves then. NCCL's do not: a kernel waits for the lost rank for
// ever, and nothing throws. They are aborted instead; that ends the kernels, and leaves in their
// tensors whatever was there. What would go on from such tensors asks here first. No libtorch.
#ifndef DDPRUN_WORKER_SRC_LOST_GROUP_H_
#define DDPRUN_WORKER_SRC_LOST_GROUP_H_

#include <functional>
#include <memory>

#include "worker/src/peers.h"

namespace ddp::internal {

// A new group, which is well.
void NoteNewGroup();

// Has `abort` called, on another thread, when a rank is lost; from just before that, GroupIsLost().
// `peers` may be null: then nobody tells, and NCCL's own watchdog is left.
void AbortWhenLost(Peers* peers, std::function<void()> abort);

// Any thread. What ran on a GPU before it said false was not touched by an abort.
bool GroupIsLost();

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_LOST_GROUP_H_
