#include "worker/src/peers/straggler_watch.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>

namespace ddp::internal {
namespace {

using std::chrono::nanoseconds;

constexpr double kSlower = 1.25;       // a rank becomes a straggler at this multiple of the others
constexpr double kStillSlower = 1.15;  // a straggler remains one at this multiple
// A shorter difference comes from the operating system's scheduler, and nobody loses time by it.
constexpr nanoseconds kLeastWait = std::chrono::milliseconds(1);
constexpr int kWindows = 3;  // this many in a row before anything changes

// The median of the times of all ranks except one. If there are two middle values, it is the longer
// one: a rank that is as slow as half of the others is no straggler.
class OthersMedian {
 public:
  OthersMedian(const std::vector<RankTimes>& ranks, nanoseconds RankTimes::*time) {
    for (const RankTimes& rank : ranks) {
      if (rank.IsKnown()) sorted_.push_back(rank.*time);
    }
    std::sort(sorted_.begin(), sorted_.end());
  }

  // `own` must be one of the times, and there must be at least one other time.
  nanoseconds Without(nanoseconds own) const {
    const auto left_out = static_cast<std::size_t>(
        std::lower_bound(sorted_.begin(), sorted_.end(), own) - sorted_.begin());
    const std::size_t middle = (sorted_.size() - 1) / 2;
    return sorted_[middle < left_out ? middle : middle + 1];
  }

 private:
  std::vector<nanoseconds> sorted_;
};

bool IsSlow(const RankTimes& rank, const RankTimes& others, double limit) {
  const nanoseconds longer = rank.first_quartile - others.first_quartile;
  return static_cast<double>(longer.count()) >
             (limit - 1) * static_cast<double>(others.first_quartile.count()) &&
         longer >= kLeastWait && rank.first_quartile > others.median;
}

std::string Milliseconds(nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f ms",
                std::chrono::duration<double, std::milli>(time).count());
  return text;
}

}  // namespace

RankTimes Summarize(std::vector<nanoseconds> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  // 0 means "not measured", so a measured time is at least 1 ns.
  const auto at = [&](std::size_t index) { return std::max(times[index], nanoseconds(1)); };
  return {at(times.size() / 4), at(times.size() / 2)};
}

StragglerWatch::Verdict StragglerWatch::Judge(const std::vector<RankTimes>& ranks) {
  Verdict verdict;
  ranks_.resize(ranks.size());
  if (std::count_if(ranks.begin(), ranks.end(), std::mem_fn(&RankTimes::IsKnown)) < 2) {
    return verdict;
  }
  const OthersMedian quartiles(ranks, &RankTimes::first_quartile);
  const OthersMedian medians(ranks, &RankTimes::median);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!ranks[i].IsKnown()) continue;
    Rank& known = ranks_[i];
    const RankTimes others = {quartiles.Without(ranks[i].first_quartile),
                              medians.Without(ranks[i].median)};
    const bool slow = IsSlow(ranks[i], others, known.straggles ? kStillSlower : kSlower);
    known.contrary_windows = slow == known.straggles ? 0 : known.contrary_windows + 1;
    if (known.contrary_windows == kWindows) {
      known = {.straggles = slow};
      if (!slow) verdict.ended.push_back(static_cast<int>(i));
    }
    if (!known.straggles || !slow) continue;
    Straggler straggler;
    straggler.rank = static_cast<int>(i);
    straggler.time = ranks[i].median;
    straggler.others = others.median;
    verdict.stragglers.push_back(straggler);
  }
  std::stable_sort(verdict.stragglers.begin(), verdict.stragglers.end(),
                   [](const Straggler& a, const Straggler& b) { return a.time > b.time; });
  return verdict;
}

std::string Describe(const Straggler& straggler, const std::string& host, int steps) {
  return "rank " + std::to_string(straggler.rank) + " (" + host +
         ") keeps the others waiting: in the last " + std::to_string(steps) +
         " steps it computed " + Milliseconds(straggler.time) +
         " before its first gradients were ready to be reduced, " + "the others " +
         Milliseconds(straggler.others) + "; that costs all of them " +
         Milliseconds(straggler.wait()) + " a step";
}

}  // namespace ddp::internal
