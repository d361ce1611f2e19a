#include "launcher/core/straggler_list.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ddprun {
namespace {

double Milliseconds(std::chrono::microseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

}  // namespace

std::optional<std::string> StragglerList::Begun(std::int64_t rank, const std::string& host,
                                                std::chrono::microseconds time,
                                                std::chrono::microseconds others) {
  if (ranks_.size() >= kMaxListed || !ranks_.insert(rank).second) return std::nullopt;
  return absl::StrFormat(
      "rank %d on %s keeps the others waiting: of each step it computes %.1f ms before its first "
      "gradients are ready, the others %.1f ms",
      rank, host, Milliseconds(time), Milliseconds(others));
}

std::optional<std::string> StragglerList::Ended(std::int64_t rank) {
  if (ranks_.erase(rank) == 0) return std::nullopt;
  return absl::StrCat("rank ", rank, " keeps the others waiting no longer");
}

std::optional<int> StragglerList::size() const {
  if (!compared_ && ranks_.empty()) return std::nullopt;
  return static_cast<int>(ranks_.size());
}

std::vector<Rank> StragglerList::Lowest(std::size_t most) const {
  std::vector<Rank> lowest;
  for (const std::int64_t rank : ranks_) {
    if (lowest.size() == most || rank >= kMaxNodes * kMaxWorkersPerNode) break;
    lowest.push_back(Rank{static_cast<int>(rank)});
  }
  return lowest;
}

}  // namespace ddprun
