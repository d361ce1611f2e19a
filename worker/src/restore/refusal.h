// Refuses to begin a training at step 0 although a state exists.
#ifndef DDPRUN_WORKER_SRC_RESTORE_REFUSAL_H_
#define DDPRUN_WORKER_SRC_RESTORE_REFUSAL_H_

#include <optional>
#include <string>
#include <vector>

#include "worker/src/storage/restore_order.h"

namespace ddp::internal {

// Throws StateUnreadableError, because a state exists and must not be dropped silently. `rejected`
// lists the states that cannot be loaded, each with the reason. `rank` is this rank.
[[noreturn]] void RefuseToBeginAnew(const std::optional<RestoreOrder>& order,
                                    const std::vector<std::string>& rejected, int rank);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_RESTORE_REFUSAL_H_
