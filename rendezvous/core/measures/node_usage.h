// What a node's workers use, and how far away its rendezvous is: told with each heartbeat, for
// people and metrics. Nothing is decided by it.
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
  // By workers and the processes that they started, the ended ones included; only grows in an
  // agent's life.
  std::chrono::milliseconds cpu{};
  std::int64_t resident_bytes = 0;  // of the running workers
  Duration round_trip{};            // of the last heartbeat that was answered; 0: none was
  // Ranks of the whole job that keep the others waiting. Of rank 0's node, where its program
  // compares the ranks; nullopt: nobody does here.
  std::optional<int> stragglers{};
  std::vector<Rank> straggler_ranks{};  // the lowest of them; at most kMostNamed

  static constexpr std::size_t kMostNamed = 16;

  bool operator==(const NodeUsage&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MEASURES_NODE_USAGE_H_
