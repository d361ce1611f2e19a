// HeldBackNodes: keeps nodes out of the next generation for a while.
//
// A node is held back for three reasons: it was repeatedly lost soon after joining; SIGKILL did not
// end its processes; or it joins a running job, and its standbys still load the program.
//
// Owned by the JobMachine.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_NODES_HELD_BACK_NODES_H_
#define DDPRUN_RENDEZVOUS_MACHINE_NODES_HELD_BACK_NODES_H_

#include <optional>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"
#include "rendezvous/machine/job_life.h"
#include "rendezvous/machine/nodes/roster.h"
#include "rendezvous/machine/states/state_survey.h"
#include "rendezvous/machine/step/job_outbox.h"

namespace ddprun {

class HeldBackNodes {
 public:
  // The arguments must outlive this object.
  HeldBackNodes(JobLife* life, Roster* roster, StateSurvey* survey, JobOutbox* out)
      : life_(life), roster_(roster), survey_(survey), out_(out) {}
  HeldBackNodes(const HeldBackNodes&) = delete;
  HeldBackNodes& operator=(const HeldBackNodes&) = delete;

  // Holds the node back if it was repeatedly lost soon after joining.
  void OnJoined(Node& node, TimePoint now);
  // Holds the node back until these processes, which SIGKILL did not end, are gone.
  void TakeStuck(Node& node, const StuckProcesses& stuck, TimePoint now);
  // The node has joined a running job whose program can be a warm standby. Holds it back until its
  // standbys wait or the next gathering begins, for at most kStandbysLimit. The caller asks it to
  // start them (Waiting::start_standbys). Has no effect on a node that is held back for another
  // reason.
  void AwaitStandbys(Node& node, TimePoint now);
  // Ends AwaitStandbys(). False: the node was not held back for its standbys.
  bool EndLoading(Node& node);
  // Admits the nodes whose delay is over.
  void Admit(TimePoint now);

  std::optional<TimePoint> NextDeadline() const { return life_->next_admission; }

 private:
  JobLife* const life_;
  Roster* const roster_;
  StateSurvey* const survey_;
  JobOutbox* const out_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_NODES_HELD_BACK_NODES_H_
