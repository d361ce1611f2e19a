// A set of ranks, stored as ranges, because ranks with the same stack are mostly neighbours. Pure.
#ifndef DDPRUN_RENDEZVOUS_STACKS_RANK_SET_H_
#define DDPRUN_RENDEZVOUS_STACKS_RANK_SET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

// Includes both ends.
struct RankRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  friend auto operator<=>(const RankRange&, const RankRange&) = default;
};

// True if `outer` contains every rank of `inner`. Both satisfy RankSet::AreASet().
bool Covers(const std::vector<RankRange>& outer, const std::vector<RankRange>& inner);

class RankSet {
 public:
  RankSet() = default;
  explicit RankSet(std::uint32_t rank) : ranges_{{rank, rank}} {}

  // True if the ranges ascend without overlapping or touching, so that equal sets have equal
  // ranges. Checks untrusted input.
  static bool AreASet(const std::vector<RankRange>& ranges);

  void Add(std::uint32_t rank) { Add(RankRange{rank, rank}); }
  void Add(RankRange range);
  void Add(const RankSet& other) { AddRanges(other.ranges_); }
  // `set` satisfies AreASet().
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
