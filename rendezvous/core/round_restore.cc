// Round: which state a generation begins with, and who gives it to the others.
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/core/round.h"

namespace ddprun {

void Round::TakeStates(Node& node, const std::vector<SavedState>& states) {
  node.states = states;
  if (node.states.size() > kMaxSavedStates) node.states.resize(kMaxSavedStates);
  if (!states.empty()) told_of_states_ = true;
}

const SavedState* Round::NewestOf(const Node& node, Generation newest) const {
  // The same step in both tiers: memory is faster.
  const auto key = [](const SavedState& state) {
    return std::tuple(state.step, state.tier == Tier::kMemory, state.epoch, state.generation);
  };
  const SavedState* best = nullptr;
  for (const SavedState& state : node.states) {
    if (!timeline_.Holds(state, epoch_, newest)) continue;
    if (best == nullptr || key(state) > key(*best)) best = &state;
  }
  return best;
}

// By node rank, and only what is newer takes the place of what was found: so rank 0 is the source
// unless another node holds a newer state, and of several that do it is the first.
std::optional<std::int64_t> Round::DurableStep() const {
  if (checkpoint_) return checkpoint_;  // of this epoch, and so the newest
  if (restore_ && restore_->state && restore_->state->tier == Tier::kDurable) {
    return restore_->step();
  }
  return std::nullopt;
}

void Round::PlanRestore(Generation newest) {
  restore_.reset();
  if (!told_of_states_) return;
  const Node* source = nullptr;
  const SavedState* best = nullptr;
  constexpr std::size_t kNamesShown = 8;
  std::vector<std::string> dead;
  for (const Node* const node : roster_.members()) {
    const SavedState* const held = NewestOf(*node, newest);
    if (held != nullptr && (best == nullptr || held->step > best->step)) {
      source = node;
      best = held;
    }
    for (const SavedState& state : node->states) {
      if (dead.size() >= kNamesShown || timeline_.Holds(state, epoch_, newest)) continue;
      dead.push_back(absl::StrCat("step ", state.step, " of generation ", state.generation.value,
                                  " on ", node->spec.host, " (", ToString(state.tier), ")"));
    }
  }
  if (!dead.empty()) {
    Say(absl::StrCat("discarded, because a later generation resumed before it: ",
                     absl::StrJoin(dead, ", ")));
  }
  restore_ =
      best == nullptr ? RestorePlan{} : RestorePlan{*best, source->first_rank, source->spec.host};
}

}  // namespace ddprun
