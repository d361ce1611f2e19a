// Which state a generation begins with, and who gives it to the others. Pure functions.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_STATES_RESTORE_CHOICE_H_
#define DDPRUN_RENDEZVOUS_MACHINE_STATES_RESTORE_CHOICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/saved_state.h"
#include "rendezvous/core/types.h"
#include "rendezvous/machine/nodes/roster.h"
#include "rendezvous/machine/states/timeline.h"

namespace ddprun {

// Against what a state is judged: `newest` is the last generation that there was in this life.
struct StateJudge {
  const Timeline& timeline;
  std::uint32_t requeue_number;
  Generation newest;

  // No later generation has resumed before it.
  bool IsAlive(const SavedState& state) const {
    return timeline.Holds(state, requeue_number, newest);
  }
};

// The newest living state that this node holds; nullptr: none. Of the same step in both tiers the
// one in memory.
const SavedState* NewestOf(const Node& node, const StateJudge& judge);

// The step of the newest living one on the disk of any node.
std::optional<std::int64_t> NewestDurable(const Roster& roster, const StateJudge& judge);

// The step of the newest living one that a free node has told of; −1: none has.
std::int64_t NewestKnownStep(const Roster& roster, const StateJudge& judge);

// One of `members` may hold a newer state than all of them have told of: its disk has yet to
// answer. `furthest`: no state of a later step can exist; nullopt: that is not known. What other
// nodes hold does not count, because only members begin with a state and pass it on.
bool MayHoldNewer(const std::vector<Node*>& members, std::optional<std::int64_t> furthest,
                  const StateJudge& judge);

struct RestoreChoice {
  RestorePlan plan;
  std::vector<std::string> discarded;  // states of dead timelines, a few, for people
};
// Of the members. Rank 0 is the source unless another node holds a newer state; of several that do,
// the first by node rank.
RestoreChoice ChooseRestore(const Roster& roster, const StateJudge& judge);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STATES_RESTORE_CHOICE_H_
