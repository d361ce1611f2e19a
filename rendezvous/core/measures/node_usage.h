// Resource usage of a node's workers, and the round trip to the rendezvous. Sent with each
// heartbeat, for people and metrics. No decision uses it.
#ifndef DDPRUN_RENDEZVOUS_CORE_MEASURES_NODE_USAGE_H_
#define DDPRUN_RENDEZVOUS_CORE_MEASURES_NODE_USAGE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rendezvous/core/types.h"

namespace ddprun {

struct NodeUsage {
  // CPU time of the workers and of the processes that they started, ended ones included. Counts
  // from the agent's start.
  std::chrono::milliseconds cpu{};
  std::int64_t resident_bytes = 0;  // of the running workers
  Duration round_trip{};            // of the last answered heartbeat; 0: none yet
  // The number of ranks of the whole job that keep the others waiting. Set on rank 0's node, if its
  // program compares the ranks; else nullopt.
  std::optional<int> stragglers{};
  std::vector<Rank> straggler_ranks{};  // the lowest ones; at most kMostNamed
  std::int64_t failed_snapshots = 0;    // of its workers, since the agent's start

  static constexpr std::size_t kMostNamed = 16;

  bool operator==(const NodeUsage&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MEASURES_NODE_USAGE_H_
