// A state as the texts of its file, and why training does not begin anew beside one. Pure.
#ifndef DDPRUN_WORKER_SRC_CHECKPOINT_STATE_TEXTS_H_
#define DDPRUN_WORKER_SRC_CHECKPOINT_STATE_TEXTS_H_

#include <ddp/checkpointer.h>

#include <optional>
#include <string>
#include <vector>

#include "worker/src/restore/state_search.h"
#include "worker/src/storage/restore_order.h"

namespace ddp::internal {

State StateOf(const FoundState& found);

// Throws CheckpointError for a negative step, and for user texts that are not UTF-8.
void AddPlace(const State& state, int world_size, Metadata* metadata);

// For people: there is a state, none can be loaded, and it is not to be forgotten in silence.
// `rejected` says which, and why.
std::string WhyNotAnew(const std::optional<RestoreOrder>& order,
                       const std::vector<std::string>& rejected);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_CHECKPOINT_STATE_TEXTS_H_
