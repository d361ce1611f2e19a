// A state as metadata of its file. Pure.
#ifndef DDPRUN_WORKER_SRC_CHECKPOINT_STATE_TEXTS_H_
#define DDPRUN_WORKER_SRC_CHECKPOINT_STATE_TEXTS_H_

#include <ddp/checkpointer.h>

#include "worker/src/restore/state_search.h"

namespace ddp::internal {

State StateOf(const FoundState& found);

// Throws CheckpointError for a negative step, and for user texts that are not UTF-8.
void AddPlace(const State& state, int world_size, Metadata* metadata);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_CHECKPOINT_STATE_TEXTS_H_
