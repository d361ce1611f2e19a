#include "rendezvous/stacks/rank_set.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

// True if `next` overlaps `range` or follows it without a gap. `next` does not begin before
// `range`.
bool Touches(const RankRange& range, const RankRange& next) {
  return range.last == std::numeric_limits<std::uint32_t>::max() || next.first <= range.last + 1;
}

// Above this number of ranges, one pass over both sets is cheaper than a binary search for each
// range.
constexpr std::size_t kFewRanges = 8;

}  // namespace

bool Covers(const std::vector<RankRange>& outer, const std::vector<RankRange>& inner) {
  auto around = outer.begin();
  return std::all_of(inner.begin(), inner.end(), [&](const RankRange& range) {
    while (around != outer.end() && around->last < range.first) ++around;
    return around != outer.end() && around->first <= range.first && range.last <= around->last;
  });
}

bool RankSet::AreASet(const std::vector<RankRange>& ranges) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].first > ranges[i].last) return false;
    if (i == 0) continue;
    if (ranges[i].first <= ranges[i - 1].last || Touches(ranges[i - 1], ranges[i])) return false;
  }
  return true;
}

void RankSet::Add(RankRange range) {
  // The first range that overlaps or touches `range`, or comes after it.
  auto from = std::lower_bound(ranges_.begin(), ranges_.end(), range,
                               [](const RankRange& have, const RankRange& added) {
                                 return have.last < added.first && !Touches(have, added);
                               });
  auto to = from;
  while (to != ranges_.end() && (to->first <= range.last || Touches(range, *to))) {
    range.first = std::min(range.first, to->first);
    range.last = std::max(range.last, to->last);
    ++to;
  }
  if (from == to) {
    ranges_.insert(from, range);
    return;
  }
  *from = range;
  ranges_.erase(from + 1, to);
}

void RankSet::AddRanges(const std::vector<RankRange>& set) {
  if (set.size() <= kFewRanges) {
    for (const RankRange& range : set) Add(range);
    return;
  }
  std::vector<RankRange> both;
  both.reserve(ranges_.size() + set.size());
  std::merge(ranges_.begin(), ranges_.end(), set.begin(), set.end(), std::back_inserter(both));
  ranges_.clear();
  for (const RankRange& range : both) {
    if (ranges_.empty() || !Touches(ranges_.back(), range)) {
      ranges_.push_back(range);
    } else {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    }
  }
}

RankSet RankSet::Minus(const RankSet& other) const {
  RankSet left;
  auto taken = other.ranges_.begin();
  for (RankRange range : ranges_) {
    while (taken != other.ranges_.end() && taken->last < range.first) ++taken;
    bool gone = false;
    for (auto each = taken; each != other.ranges_.end() && each->first <= range.last; ++each) {
      if (each->first > range.first) left.ranges_.push_back({range.first, each->first - 1});
      gone = each->last >= range.last;
      if (gone) break;
      range.first = each->last + 1;
    }
    if (!gone) left.ranges_.push_back(range);
  }
  return left;
}

bool RankSet::Contains(std::uint32_t rank) const {
  const auto found =
      std::lower_bound(ranges_.begin(), ranges_.end(), rank,
                       [](const RankRange& range, std::uint32_t r) { return range.last < r; });
  return found != ranges_.end() && found->first <= rank;
}

std::uint64_t RankSet::count() const {
  std::uint64_t count = 0;
  for (const RankRange& range : ranges_) count += std::uint64_t{range.last} - range.first + 1;
  return count;
}

std::string RankSet::ToString(std::size_t most) const {
  std::string text;
  std::size_t written = 0;
  for (const RankRange& range : ranges_) {
    if (!text.empty()) text += ',';
    if (most != 0 && written++ == most) return text + "...";
    if (range.first == range.last) {
      absl::StrAppend(&text, range.first);
    } else {
      absl::StrAppend(&text, range.first, "-", range.last);
    }
  }
  return text;
}

}  // namespace ddprun
