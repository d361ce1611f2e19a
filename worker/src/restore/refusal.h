// Why a training does not begin, though there is nothing that it could load.
#ifndef DDPRUN_WORKER_SRC_RESTORE_REFUSAL_H_
#define DDPRUN_WORKER_SRC_RESTORE_REFUSAL_H_

#include <optional>
#include <string>
#include <vector>

#include "worker/src/storage/restore_order.h"

namespace ddp::internal {

// Throws StateUnreadableError: there is a state, and it is not to be forgotten in silence.
// `rejected`: what there is and cannot be loaded, each with the reason. `rank`: this one.
[[noreturn]] void RefuseToBeginAnew(const std::optional<RestoreOrder>& order,
                                    const std::vector<std::string>& rejected, int rank);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_RESTORE_REFUSAL_H_
