// Ranks that keep the others of the job waiting. Rank 0's worker reports them repeatedly; this
// class returns a line for the log only if a report is new.
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

#include "rendezvous/core/limits.h"

namespace ddprun {

class StragglerList {
 public:
  // Bounds the memory that a worker can use up. Further ranks are ignored.
  static constexpr std::size_t kMaxListed = kMaxWorkersPerNode;

  // A rank is slow: it computes for `time` in each step, the others for `others`. nullopt: known
  // before.
  std::optional<std::string> Begun(std::int64_t rank, const std::string& host,
                                   std::chrono::microseconds time,
                                   std::chrono::microseconds others);
  // The rank is no longer slow. nullopt: it was not known as slow.
  std::optional<std::string> Ended(std::int64_t rank);
  int size() const { return static_cast<int>(ranks_.size()); }
  // Call it for a new generation.
  void Clear() { ranks_.clear(); }

 private:
  std::set<std::int64_t> ranks_;  // at most kMaxListed
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_STRAGGLER_LIST_H_
