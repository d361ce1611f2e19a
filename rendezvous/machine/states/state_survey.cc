#include "rendezvous/machine/states/state_survey.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/machine/states/known_states.h"

namespace ddprun {

void StateSurvey::Take(Node& node, const Join& join) {
  roster_->SetStatesPending(node, join.states_pending);
  node.held.answered = node.held.answered || !join.states_pending;
  node.held.can_look_again = join.can_look_again;
  node.held.looked = join.look;
  node.held.incomplete = join.states_incomplete;
  node.held.asked = LookId{};  // a LookAgain on an earlier session may be lost
  Take(node, join.states);
}

void StateSurvey::Take(Node& node, const Stopped& stopped) {
  roster_->SetStatesPending(node, stopped.states_pending);
  node.held.answered = node.held.answered || !stopped.states_pending;
  node.held.looked = stopped.look;
  node.held.incomplete = stopped.states_incomplete;
  Take(node, stopped.states);
}

void StateSurvey::Take(Node& node, const HeldStates& held, const StateJudge& judge) {
  if (node.phase == Phase::kStarted) return;  // too late: its workers' reports are newer
  // An answer to a newer request was already taken.
  if (held.look != look_ && node.held.looked == look_) return;
  node.held.looked = held.look;
  node.held.incomplete = held.states_incomplete;
  node.held.answered = true;
  roster_->SetStatesPending(node, false);
  Take(node, held.states);
  AskToLookAgain(node);
  if (!wait() || !wait()->furthest) return;
  const SavedState* const newest = NewestOf(node, judge);
  if (newest != nullptr && !newest->unreadable && newest->step >= *wait()->furthest)
    wait()->news = true;
}

void StateSurvey::Take(Node& node, const std::vector<SavedState>& states) {
  node.held.states = states;
  if (node.held.states.size() > kMaxSavedStates) node.held.states.resize(kMaxSavedStates);
  if (!states.empty()) life_->has_states = true;
}

void StateSurvey::LoseSight(TimePoint now) {
  look_ = LookId{numbers_->Draw(look_.value, now)};
  to_ask_ = true;
}

void StateSurvey::AskToLookAgain(const JobView& view) {
  if (!std::exchange(to_ask_, false) || view.finished) return;
  for (Node& node : roster_->nodes()) AskToLookAgain(node);
  if (wait()) wait()->furthest = FurthestPossibleStep(view);
}

void StateSurvey::AskToLookAgain(Node& node) {
  // Stop contains the request for members; a suspect node is asked when it is back.
  if (node.member() || node.suspect) return;
  if (node.held_back.is_stuck()) return;  // its disk may not answer; asked when it is admitted
  if (!node.held.can_look_again || node.held.looked == look_) return;
  roster_->SetStatesPending(node, true);
  if (std::exchange(node.held.asked, look_) == look_) return;
  out_->SendTo(node, LookAgain{look_, life_->run_id});
}

bool StateSurvey::HaveReported(const JobView& view) const {
  const auto members = roster_->NextMembers(view.life.spec->max_nodes);
  return !MayHoldNewer(members, wait()->furthest, view.judge());
}

bool StateSurvey::Awaits(const JobView& view) {
  const int pending = roster_->states_pending();
  if (pending == 0) return false;
  if (!wait()) {
    wait() = StatesWait{view.now + view.life.spec->join_timeout, FurthestPossibleStep(view)};
    if (HaveReported(view)) {
      wait().reset();
      return false;
    }
  } else {
    // If there are more pending disks than spare nodes, a future member's disk is pending. So the
    // members rarely need to be computed.
    const bool fewer = std::exchange(wait()->pending, pending) != pending;
    const bool news = std::exchange(wait()->news, false);
    const int spare = roster_->free() - view.life.spec->max_nodes;
    if ((news || (fewer && pending <= spare)) && HaveReported(view)) return false;
  }
  if (view.now < wait()->until) return true;
  out_->Log(absl::StrCat("going on without the states of ", HostsWithPendingStates(view)));
  return false;
}

std::optional<TimePoint> StateSurvey::NextDeadline() const {
  return wait() ? std::optional(wait()->until) : std::nullopt;
}

}  // namespace ddprun
