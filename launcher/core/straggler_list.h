// Ranks that keep the others of the job waiting. Rank 0's worker reports them again and again; this
// returns a line for the log where a report is news.
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
  // A bound on what a worker can make the agent remember. Further ranks are ignored.
  static constexpr std::size_t kMaxListed = kMaxWorkersPerNode;

  // A rank is slow: it computes for `time` in each step, the others for `others`. Nothing where
  // that was known.
  std::optional<std::string> Begun(std::int64_t rank, const std::string& host,
                                   std::chrono::microseconds time,
                                   std::chrono::microseconds others);
  // The rank is slow no longer. Nothing where it was not known to be.
  std::optional<std::string> Ended(std::int64_t rank);
  // The ranks are compared, and the list is whole: also where it is empty.
  void Compare() { compared_ = true; }
  // How many ranks are slow; nullopt: nobody has compared them.
  std::optional<int> size() const;
  // The lowest of them, at most `most`.
  std::vector<Rank> Lowest(std::size_t most) const;
  // For a new generation.
  void Clear() { *this = {}; }

 private:
  std::set<std::int64_t> ranks_;  // at most kMaxListed
  bool compared_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_STRAGGLER_LIST_H_
