// Which ranks keep the others of the job waiting, as rank 0's worker tells again and again; what is
// new of it comes out as text for the log.
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
  // A bound on what a worker can make the agent remember. Further ranks are ignored.
  static constexpr std::size_t kMaxListed = kMaxWorkersPerNode;

  // So much of each step this rank computes on its own, and the others. Nothing where it is known.
  std::optional<std::string> Told(std::int64_t rank, const std::string& host,
                                  std::chrono::microseconds time, std::chrono::microseconds others);
  // It keeps them waiting no longer. Nothing where it never did.
  std::optional<std::string> Ended(std::int64_t rank);
  // Other workers, of whom nothing is known yet.
  void Clear() { ranks_.clear(); }

 private:
  std::set<std::int64_t> ranks_;  // at most kMaxListed
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_STRAGGLER_LIST_H_
