// Converts a state's place in the training from and to the metadata of its file. Pure functions.
#ifndef DDPRUN_WORKER_SRC_CHECKPOINT_STATE_TEXTS_H_
#define DDPRUN_WORKER_SRC_CHECKPOINT_STATE_TEXTS_H_

#include <ddp/checkpointer.h>

#include "worker/src/restore/state_search.h"

namespace ddp::internal {

State StateOf(const FoundState& found);

// Does not add the step. Throws CheckpointError if it is negative, or a user text is not UTF-8.
void AddPlace(const State& state, int world_size, Metadata* metadata);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_CHECKPOINT_STATE_TEXTS_H_
