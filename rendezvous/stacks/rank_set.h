// A set of ranks as ranges: the ranks of a job that do the same are mostly neighbours. Pure.
#ifndef DDPRUN_RENDEZVOUS_STACKS_RANK_SET_H_
#define DDPRUN_RENDEZVOUS_STACKS_RANK_SET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

// Both ends belong to it.
struct RankRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  friend auto operator<=>(const RankRange&, const RankRange&) = default;
};

// Whether every rank of `inner` is in `outer`. Both are sets (RankSet::AreASet).
bool Covers(const std::vector<RankRange>& outer, const std::vector<RankRange>& inner);

class RankSet {
 public:
  RankSet() = default;
  explicit RankSet(std::uint32_t rank) : ranges_{{rank, rank}} {}

  // Whether the ranges ascend, and neither overlap nor touch: then equal sets have equal ranges.
  // For what comes from elsewhere.
  static bool AreASet(const std::vector<RankRange>& ranges);

  void Add(std::uint32_t rank) { Add(RankRange{rank, rank}); }
  void Add(RankRange range);
  void Add(const RankSet& other) { AddRanges(other.ranges_); }
  // `set` is one, by AreASet().
  void AddRanges(const std::vector<RankRange>& set);
  RankSet Minus(const RankSet& other) const;

  bool empty() const { return ranges_.empty(); }
  bool Contains(std::uint32_t rank) const;
  std::uint64_t count() const;
  const std::vector<RankRange>& ranges() const { return ranges_; }

  // "0-4,6-15". After `most` ranges "..." stands for the rest; 0: all.
  std::string ToString(std::size_t most = 0) const;

  friend auto operator<=>(const RankSet&, const RankSet&) = default;

 private:
  std::vector<RankRange> ranges_;  // ascending; at least one rank lies between two of them
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STACKS_RANK_SET_H_
