// StateSurvey: learns what the nodes of a job hold of the training before a group forms.
//
// A plan that leaves out the newest state loses work for good: later generations discard it. So a
// disk that has yet to answer is waited for, and one that was looked at too early is looked at
// again. Owned by the JobMachine.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_STATES_STATE_SURVEY_H_
#define DDPRUN_RENDEZVOUS_MACHINE_STATES_STATE_SURVEY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/saved_state.h"
#include "rendezvous/core/types.h"
#include "rendezvous/machine/job_life.h"
#include "rendezvous/machine/job_view.h"
#include "rendezvous/machine/nodes/roster.h"
#include "rendezvous/machine/step/job_numbers.h"
#include "rendezvous/machine/step/job_outbox.h"

namespace ddprun {

class StateSurvey {
 public:
  // All of these outlive it.
  StateSurvey(const JobNumbers* numbers, JobLife* life, Roster* roster, JobOutbox* out)
      : numbers_(numbers), life_(life), roster_(roster), out_(out) {}
  StateSurvey(const StateSurvey&) = delete;
  StateSurvey& operator=(const StateSurvey&) = delete;

  // ---- what a node says that it holds ----
  void Take(Node& node, const Join& join);
  void Take(Node& node, const Stopped& stopped);
  void Take(Node& node, const HeldStates& held, const StateJudge& judge);
  void Take(Node& node, const std::vector<SavedState>& states);

  // ---- looks ----
  // Whoever looked at a disk by now may have looked too early: workers that nobody will tell of may
  // have written there last. For when a node is gone, or out of reach.
  void LoseSight(TimePoint now);
  bool has_lost_sight() const { return look_ != LookId{}; }
  LookId look() const { return look_; }
  // AskToLookAgain() has something to do.
  void SetToAsk() { to_ask_ = true; }
  // Those that LoseSight() is about. O(nodes), and so once in each step at most.
  void AskToLookAgain(const JobView& view);
  void AskToLookAgain(Node& node);

  // ---- the wait ----
  // The disk of a member-to-be has yet to answer, and is waited for. Begins the wait; the group
  // could form.
  bool Awaits(const JobView& view);
  bool waits() const { return wait().has_value(); }
  std::optional<TimePoint> NextDeadline() const;

 private:
  // Ends with the gathering that it is part of.
  std::optional<StatesWait>& wait() { return life_->gathering.states_wait; }
  const std::optional<StatesWait>& wait() const { return life_->gathering.states_wait; }
  // The members to be have told of the newest state, or all of their disks have answered.
  bool HaveReported(const JobView& view) const;

  const JobNumbers* const numbers_;
  JobLife* const life_;
  Roster* const roster_;
  JobOutbox* const out_;
  LookId look_;          // of LoseSight(); 0: never called
  bool to_ask_ = false;  // in this step
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STATES_STATE_SURVEY_H_
