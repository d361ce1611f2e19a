#include "worker/src/restore/refusal.h"

#include <ddp/errors.h>

#include <algorithm>
#include <cstddef>

namespace ddp::internal {

void RefuseToBeginAnew(const std::optional<RestoreOrder>& order,
                       const std::vector<std::string>& rejected, int rank) {
  constexpr std::size_t kShown = 4;
  std::string text = order && !order->from_the_start
                         ? "the state of step " + std::to_string(order->step) +
                               ", with which all ranks were to begin, cannot be loaded, and no "
                               "older one either"
                         : "there are checkpoints, and none of them can be loaded";
  for (std::size_t i = 0; i < std::min(rejected.size(), kShown); ++i) text += "; " + rejected[i];
  if (rejected.size() > kShown) {
    text += "; and " + std::to_string(rejected.size() - kShown) + " more";
  }
  throw StateUnreadableError("rank 0: " + text +
                                 ". Training does not begin at step 0 beside them: repair them or "
                                 "give another folder; or start with --start-anew, to begin at "
                                 "step 0. Nothing is deleted",
                             0, rank == 0);
}

}  // namespace ddp::internal
