#include "rendezvous/machine/states/restore_choice.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

constexpr std::size_t kDiscardedShown = 8;

std::int64_t NewestStepOf(const Node& node, const StateJudge& judge) {
  const SavedState* const newest = NewestOf(node, judge);
  return newest == nullptr ? -1 : newest->step;
}

// The state of the higher step; of two with the same step, the one that can be read.
bool IsBetter(const SavedState& one, const SavedState& other) {
  return std::pair(one.step, !one.unreadable) > std::pair(other.step, !other.unreadable);
}

}  // namespace

const SavedState* NewestOf(const Node& node, const StateJudge& judge) {
  const auto key = [](const SavedState& state) {
    return std::tuple(state.step, !state.unreadable, state.tier == Tier::kMemory,
                      state.requeue_number, state.generation);
  };
  const SavedState* best = nullptr;
  for (const SavedState& state : node.held.states) {
    if (!judge.IsAlive(state)) continue;
    if (best == nullptr || key(state) > key(*best)) best = &state;
  }
  return best;
}

std::optional<std::int64_t> NewestDurable(const Roster& roster, const StateJudge& judge) {
  std::optional<std::int64_t> newest;
  for (const Node& node : roster.nodes()) {
    for (const SavedState& state : node.held.states) {
      if (state.tier != Tier::kDurable || !judge.IsAlive(state)) continue;
      newest = std::max<std::optional<std::int64_t>>(newest, state.step);
    }
  }
  return newest;
}

std::int64_t NewestKnownStep(const Roster& roster, const StateJudge& judge) {
  std::int64_t newest = -1;
  for (const Node& node : roster.nodes()) {
    if (node.free()) newest = std::max(newest, NewestStepOf(node, judge));
  }
  return newest;
}

bool MayHoldNewer(const std::vector<Node*>& members, std::optional<std::int64_t> furthest,
                  const StateJudge& judge) {
  bool pending = false;
  std::int64_t newest = -1;
  for (const Node* const node : members) {
    pending = pending || node->held.pending;
    const SavedState* const held = NewestOf(*node, judge);
    // Another node may be able to read the same file.
    if (held != nullptr && !held->unreadable) newest = std::max(newest, held->step);
  }
  return pending && (!furthest || newest < *furthest);
}

RestoreChoice ChooseRestore(const Roster& roster, const StateJudge& judge,
                            const std::optional<SavedState>& reported) {
  RestoreChoice choice;
  const Node* incomplete = nullptr;
  for (const Node* const node : roster.members()) {
    const SavedState* const held = NewestOf(*node, judge);
    if (incomplete == nullptr && node->held.incomplete) incomplete = node;
    if (held != nullptr && (!choice.plan.state || IsBetter(*held, *choice.plan.state))) {
      choice.plan = {*held, node->first_rank, node->spec.host};
    }
    for (const SavedState& state : node->held.states) {
      if (choice.discarded.size() >= kDiscardedShown || judge.IsAlive(state)) continue;
      choice.discarded.push_back(absl::StrCat("step ", state.step, " of generation ",
                                              state.generation.value, " on ", node->spec.host, " (",
                                              ToString(state.tier), ")"));
    }
  }
  const bool newer = reported && (!choice.plan.state || choice.plan.step() < reported->step);
  if (incomplete != nullptr && newer && judge.IsAlive(*reported)) {
    choice.plan.unseen = {*reported, incomplete->first_rank, incomplete->spec.host};
  }
  return choice;
}

}  // namespace ddprun
