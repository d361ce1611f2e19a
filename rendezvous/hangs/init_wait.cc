#include "rendezvous/hangs/init_wait.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rendezvous/hangs/hang_verdict.h"
#include "worker/contract/control.h"

namespace ddprun {

std::optional<InitWait> InitWaitOf(const std::vector<StillNode>& nodes) {
  InitWait wait;
  for (const StillNode& node : nodes) {
    for (const StillWorker& worker : node.told->still_workers) {
      if (worker.phase != control::kPhaseInit) continue;
      ++wait.arrivals.arrived;
      wait.longest = std::max(wait.longest, worker.still);
    }
    for (const StillWorker& worker : node.told->silent_workers) {
      const Rank rank{node.first_rank.value + worker.local_rank.value};
      auto& missing = wait.arrivals.missing;
      if (missing.empty()) {
        wait.rank = rank;
        wait.worker = worker;
      }
      if (missing.size() < StoreArrivals::kMostMissing) missing.push_back({rank, node.host});
    }
  }
  if (wait.arrivals.arrived == 0 || wait.arrivals.missing.empty()) return std::nullopt;
  return wait;
}

std::string Describe(const InitWait& wait, int world_size) {
  const std::string& now = wait.worker.waits_for;
  return absl::StrCat(Describe(wait.arrivals, world_size), ": rank ", wait.rank.value, " (pid ",
                      wait.worker.pid, ") started ", ForHowLong(wait.worker.still), " ago",
                      now.empty() ? "" : ", now in ", now);
}

}  // namespace ddprun
