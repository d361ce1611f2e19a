// StragglerList: ranks that keep the other ranks of the job waiting. Rank 0's worker reports them
// repeatedly. This class returns a line for the log only when a report has something new.
//
// Pure. One owner.
#ifndef DDPRUN_LAUNCHER_CORE_STRAGGLER_LIST_H_
#define DDPRUN_LAUNCHER_CORE_STRAGGLER_LIST_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/core/limits.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class StragglerList {
 public:
  // Bounds the memory that a worker's reports can take. Further ranks are ignored.
  static constexpr std::size_t kMaxListed = kMaxWorkersPerNode;

  // A rank is slow: it computes for `time` in each step, the other ranks for `others`. nullopt:
  // already known.
  std::optional<std::string> Begun(std::int64_t rank, const std::string& host,
                                   std::chrono::microseconds time,
                                   std::chrono::microseconds others);
  // The rank is no longer slow. nullopt: it was not known as slow.
  std::optional<std::string> Ended(std::int64_t rank);
  // The ranks' times are being compared: from now on an empty list means that no rank is slow.
  void Compare() { compared_ = true; }
  // How many ranks are slow; nullopt: the ranks were not compared.
  std::optional<int> size() const;
  // The lowest slow ranks, at most `most`.
  std::vector<Rank> Lowest(std::size_t most) const;
  // For a new generation.
  void Clear() { *this = {}; }

 private:
  std::set<std::int64_t> ranks_;  // at most kMaxListed
  bool compared_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_STRAGGLER_LIST_H_
