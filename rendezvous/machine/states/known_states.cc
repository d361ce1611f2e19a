#include "rendezvous/machine/states/known_states.h"

#include <algorithm>

namespace ddprun {

std::optional<std::int64_t> DurableStep(const JobView& view) {
  if (view.life.checkpoint) return view.life.checkpoint;  // of this life, and so the newest
  const auto& restore = view.generation.restore;
  if (restore && restore->state && restore->state->tier == Tier::kDurable) return restore->step();
  return NewestDurable(view.roster, view.judge());
}

// Nobody has made a later step, or told of a later checkpoint, in the generation that has ended:
// its members make their steps together, and one of them is here and has told its own. Of a node
// that was lost in it and has joined again nobody knows how far it got.
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
