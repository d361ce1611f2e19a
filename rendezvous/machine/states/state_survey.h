// StateSurvey: finds out which states the nodes of a job hold, before a group forms.
//
// If a restore plan overlooks the newest state, that work is lost: later generations discard the
// state. So the survey waits for a disk that has not answered, and asks again if a disk was read
// too early. Owned by the JobMachine.
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
  // The arguments must outlive this object.
  StateSurvey(const JobNumbers* numbers, JobLife* life, Roster* roster, JobOutbox* out)
      : numbers_(numbers), life_(life), roster_(roster), out_(out) {}
  StateSurvey(const StateSurvey&) = delete;
  StateSurvey& operator=(const StateSurvey&) = delete;

  // ---- reports of states ----
  void Take(Node& node, const Join& join);
  void Take(Node& node, const Stopped& stopped);
  void Take(Node& node, const HeldStates& held, const StateJudge& judge);
  void Take(Node& node, const std::vector<SavedState>& states);

  // ---- looks ----
  // In a look, an agent reads which states its disk holds.
  //
  // Makes all earlier looks at disks invalid, because workers of a lost node may have written after
  // them. Call it when a node is gone or out of reach.
  void LoseSight(TimePoint now);
  bool has_lost_sight() const { return look_ != LookId{}; }
  LookId look() const { return look_; }
  // The next AskToLookAgain() has nodes to ask.
  void SetToAsk() { to_ask_ = true; }
  // Asks the nodes whose look is invalid. O(nodes), so at most once per step.
  void AskToLookAgain(const JobView& view);
  void AskToLookAgain(Node& node);

  // ---- the wait ----
  // True while the group could form but must wait for the disk of a future member. The first such
  // call begins the wait.
  bool Awaits(const JobView& view);
  bool waits() const { return wait().has_value(); }
  std::optional<TimePoint> NextDeadline() const;

 private:
  // The wait ends with the gathering.
  std::optional<StatesWait>& wait() { return life_->gathering.states_wait; }
  const std::optional<StatesWait>& wait() const { return life_->gathering.states_wait; }
  // True if the future members have reported the newest state, or all their disks have answered.
  bool HaveReported(const JobView& view) const;

  const JobNumbers* const numbers_;
  JobLife* const life_;
  Roster* const roster_;
  JobOutbox* const out_;
  LookId look_;          // drawn by the last LoseSight(); 0: never called
  bool to_ask_ = false;  // SetToAsk() or LoseSight() in this step
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STATES_STATE_SURVEY_H_
