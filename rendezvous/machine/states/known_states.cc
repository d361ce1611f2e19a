#include "rendezvous/machine/states/known_states.h"

#include <algorithm>

namespace ddprun {

std::optional<std::int64_t> DurableStep(const JobView& view) {
  if (view.life.checkpoint) return view.life.checkpoint;  // made in this life, so the newest
  const auto& restore = view.generation.restore;
  if (restore && restore->state && restore->state->tier == Tier::kDurable) return restore->step();
  return NewestDurable(view.roster, view.judge());
}

std::optional<SavedState> ReportedCheckpoint(const JobView& view) {
  if (!view.life.checkpoint) return std::nullopt;
  return SavedState{view.life.requeue_number, view.life.checkpoint_generation,
                    *view.life.checkpoint, Tier::kDurable};
}

// The members of a generation make their steps together. If at least one member is here and has
// reported its last step, no state is newer than the furthest reported step or checkpoint. Not
// known if a node was lost in the generation and has joined again, because its workers' last step
// is not known.
std::optional<std::int64_t> FurthestPossibleStep(const JobView& view) {
  const GenerationState& generation = view.generation;
  if (generation.started_at == TimePoint{} || !generation.furthest_step) return std::nullopt;
  const auto& members = view.roster.members();
  const bool one_has_told = std::any_of(members.begin(), members.end(), [](const Node* node) {
    return node != nullptr && node->free() && node->told.step;
  });
  if (!one_has_told) return std::nullopt;
  const auto& nodes = view.roster.nodes();
  const bool known = std::all_of(nodes.begin(), nodes.end(), [](const Node& node) {
    return !node.held.pending || node.stay.has_started || node.held.answered;
  });
  return known ? std::max(generation.furthest_step, view.life.checkpoint) : std::nullopt;
}

bool HasNewState(const JobView& view) {
  const auto& restore = view.generation.restore;
  const std::int64_t began_with = restore ? restore->step() : 0;
  const StateJudge judge = view.judge();
  const auto& nodes = view.roster.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
    const SavedState* const newest = NewestOf(node, judge);
    return newest != nullptr && newest->step > began_with;
  });
}

}  // namespace ddprun
