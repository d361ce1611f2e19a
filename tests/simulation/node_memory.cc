#include "tests/simulation/node_memory.h"

#include <algorithm>
#include <utility>

namespace ddprun::sim {

using ddp::internal::RankPlaces;

RankPlaces NodeMemory::PlacesOf(int rank) {
  std::vector<std::byte>& memory = places_[rank];
  if (memory.empty()) memory.resize(RankPlaces::BytesFor(64));
  return {memory.data(), memory.size()};
}

void NodeMemory::TakeOver(std::int64_t keep_step) {
  std::int64_t kept = -1;
  for (const WholeState& state : snapshots_) {
    if (state.step <= keep_step) kept = std::max(kept, state.step);
  }
  std::erase_if(snapshots_, [&](const WholeState& state) { return state.step != kept; });
}

void NodeMemory::Publish(WholeState state) {
  std::erase_if(snapshots_, [&](const WholeState& other) { return other.step == state.step; });
  snapshots_.insert(snapshots_.begin(), std::move(state));
  if (snapshots_.size() > 2) snapshots_.pop_back();
}

const WholeState* NodeMemory::Find(std::uint32_t requeue_number, Generation generation,
                                   std::int64_t step) const {
  for (const WholeState& state : snapshots_) {
    if (state.requeue_number == requeue_number && state.generation == generation &&
        state.step == step) {
      return &state;
    }
  }
  return nullptr;
}

std::optional<std::int64_t> NodeMemory::NewestStep() const {
  std::optional<std::int64_t> newest;
  for (const WholeState& state : snapshots_) newest = std::max(newest, {state.step});
  return newest;
}

}  // namespace ddprun::sim
