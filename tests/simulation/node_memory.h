// The data that workers keep in their node's memory, in the agent's folder (DDPRUN_SNAPSHOT_DIR).
// The data outlive the workers, and are lost with the agent.
#ifndef DDPRUN_TESTS_SIMULATION_NODE_MEMORY_H_
#define DDPRUN_TESTS_SIMULATION_NODE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tests/simulation/trained_state.h"
#include "worker/src/storage/rank_places.h"

namespace ddprun::sim {

class NodeMemory {
 public:
  // The places where a rank of this node puts its own state of each step (RankPlaces).
  ddp::internal::RankPlaces PlacesOf(int rank);
  bool HasPlacesOf(int rank) const { return places_.contains(rank); }

  // A process begins to make snapshots. Keeps the snapshot of `keep_step`, or else the newest one
  // before that step. The process reuses the memory of the others.
  void TakeOver(std::int64_t keep_step);
  // A complete snapshot replaces a snapshot of the same step, or else the older one of two.
  void Publish(WholeState state);
  // nullptr: there is none. The pointer is valid until the next Publish() or TakeOver().
  const WholeState* Find(std::uint32_t requeue_number, Generation generation,
                         std::int64_t step) const;
  // The highest step of all snapshots.
  std::optional<std::int64_t> NewestStep() const;

  // The worker that may make snapshots, as it holds the lock of the folder; −1: none.
  int turn = -1;

 private:
  std::map<int, std::vector<std::byte>> places_;  // by rank
  std::vector<WholeState> snapshots_;             // the newest first, at most two
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_NODE_MEMORY_H_
