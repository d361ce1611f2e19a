#include "worker/src/lost_group.h"

#include <atomic>
#include <utility>

namespace ddp::internal {
namespace {

std::atomic<bool> is_lost{false};

}  // namespace

void NoteNewGroup() { is_lost = false; }

void AbortWhenLost(Peers* peers, std::function<void()> abort) {
  if (peers == nullptr || abort == nullptr) return;
  peers->WatchForLoss([abort = std::move(abort)] {
    is_lost = true;  // first: whoever sees the end of a kernel knows what it is worth
    abort();
  });
}

bool GroupIsLost() { return is_lost; }

}  // namespace ddp::internal
