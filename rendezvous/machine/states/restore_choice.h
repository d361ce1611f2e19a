// Which state a generation begins with, and which rank sends it to the others. Pure functions.
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

// Decides whether a state is alive: part of the present training (timeline.h). `newest`: the newest
// generation of this life. `furthest`: the highest step that its workers have reported; nullopt:
// not known.
struct StateJudge {
  const Timeline& timeline;
  std::uint32_t requeue_number;
  Generation newest;
  std::optional<std::int64_t> furthest{};

  // True if no later generation resumed from an earlier step. An unreadable file does not say who
  // made it. It counts as alive if the newest generation may have made it, because ignoring it
  // could lose work. A rank can be one step ahead of the reports.
  bool IsAlive(const SavedState& state) const {
    if (timeline.Holds(state, requeue_number, newest)) return true;
    return state.unreadable && state.generation.value < 0 &&
           (!furthest || state.step <= *furthest + 1);
  }
};

// The newest living state of this node; nullptr: none. Among states of one step, a state that can
// be read comes first, then the state in memory.
const SavedState* NewestOf(const Node& node, const StateJudge& judge);

// The step of the newest living durable state of all nodes.
std::optional<std::int64_t> NewestDurable(const Roster& roster, const StateJudge& judge);

// The step of the newest living state of all nodes that can join the next generation (Node::free);
// −1: none.
std::int64_t NewestKnownStep(const Roster& roster, const StateJudge& judge);

// True if a member may hold a newer state than all members have reported, because its disk has not
// answered. `furthest`: no state of a later step can exist; nullopt: not known. Nodes that are not
// members do not count: only a member can be the source.
bool MayHoldNewer(const std::vector<Node*>& members, std::optional<std::int64_t> furthest,
                  const StateJudge& judge);

struct RestoreChoice {
  RestorePlan plan;
  std::vector<std::string> discarded;  // states of dead timelines, a few, for people
};
// Chooses among the members' states. The source is a node with the newest state. If several nodes
// hold the newest state: a node that can read it, and of these the lowest node rank. `reported`:
// the newest checkpoint that was reported. It is the plan's unseen state if three things hold: it
// is alive; all members' states are older; a part of a member's disk cannot be read.
RestoreChoice ChooseRestore(const Roster& roster, const StateJudge& judge,
                            const std::optional<SavedState>& reported);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STATES_RESTORE_CHOICE_H_
