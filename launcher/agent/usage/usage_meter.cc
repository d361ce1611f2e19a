#include "launcher/agent/usage/usage_meter.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "launcher/agent/rank_processes.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostOfARank = 64;

// The use since `before`, an earlier reading of the same process, and the present memory.
Use Since(const Use& before, const Use& now) {
  const auto grown = [](const auto& from, const auto& to) { return std::max(to, from) - from; };
  return {grown(before.cpu, now.cpu), grown(before.read_bytes, now.read_bytes),
          grown(before.written_bytes, now.written_bytes), now.resident_bytes};
}

}  // namespace

UsageMeter::Reading UsageMeter::Look(const std::vector<RankWorker>& workers) {
  std::map<Rank, std::vector<ProcessUse>> seen;
  for (const RankWorker& each : workers) {
    for (const pid_t pid : WithDescendants(each.worker, kMostOfARank)) {
      if (const auto use = ReadProcessUse(pid)) seen[each.rank].push_back(*use);
    }
  }
  const std::lock_guard lock(mutex_);
  std::map<Key, Use> processes;
  std::map<Rank, Use> ranks;
  all_.resident_bytes = 0;
  for (const auto& [rank, uses] : seen) {
    Use& of_rank = ranks[rank] = ranks_[rank];
    of_rank.resident_bytes = 0;
    for (const ProcessUse& each : uses) {
      const Key key(each.process.pid, each.process.started);
      const auto before = processes_.find(key);
      const Use used = Since(before == processes_.end() ? Use{} : before->second, each.use);
      of_rank = of_rank + used;
      all_ = all_ + used;
      processes[key] = each.use;
    }
  }
  processes_ = std::move(processes);
  ranks_ = std::move(ranks);
  Reading reading{all_, {}};
  for (const auto& [rank, use] : ranks_) reading.ranks.push_back({rank, use});
  return reading;
}

Use UsageMeter::last() const {
  const std::lock_guard lock(mutex_);
  return all_;
}

}  // namespace ddprun
