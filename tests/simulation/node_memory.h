// The data of workers in the memory of their node, in the agent's folder (DDPRUN_SNAPSHOT_DIR): it
// outlives the workers, and is lost with the agent.
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
  // Of a rank that runs on this node, or did.
  ddp::internal::RankPlaces PlacesOf(int rank);
  bool HasPlacesOf(int rank) const { return places_.contains(rank); }

  // A process begins to make snapshots. That of `keep_step`, or the newest one before, stays; the
  // others are its memory.
  void TakeOver(std::int64_t keep_step);
  // A snapshot is whole, in the place of the older one.
  void Publish(WholeState state);
  // nullptr: there is none. Until the next Publish() or TakeOver().
  const WholeState* Find(std::uint32_t requeue_number, Generation generation,
                         std::int64_t step) const;
  // The highest step of all.
  std::optional<std::int64_t> NewestStep() const;

  // Which worker may make snapshots; −1: none. Whoever has it holds a lock of the folder.
  int turn = -1;

 private:
  std::map<int, std::vector<std::byte>> places_;  // by rank
  std::vector<WholeState> snapshots_;             // the newest first, at most two
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_NODE_MEMORY_H_
