// What of a job must outlive the process of its rendezvous. Plain values.
//
// Little is enough: after a restart the agents come back and repeat what they said in the current
// generation. What only the rendezvous knows is here: that the generation was formed and of whom,
// so that its number and its ranks are not given to others, and what the budget of restarts has
// left. JobLife, GenerationState, Node and RestartGovernor have their parts of it as they are.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_JOB_RECORD_H_
#define DDPRUN_RENDEZVOUS_MACHINE_JOB_RECORD_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"
#include "rendezvous/machine/generation_state.h"
#include "rendezvous/machine/job_life.h"
#include "rendezvous/machine/nodes/quarantine.h"
#include "rendezvous/machine/nodes/roster.h"
#include "rendezvous/machine/restart_governor.h"
#include "rendezvous/machine/states/timeline.h"

namespace ddprun {

struct JobRecord : LifeRecord, GenerationRecord {
  JobSpec spec{};
  Generation generation{};            // the newest one formed
  std::vector<NodeRecord> members{};  // of it, by rank
  GovernorRecord governor{};
  std::vector<ResumePoint> timeline{};  // of those that ran before it
  FailureRecord failed_checkpoints{};
  QuarantineRecord quarantine{};
  std::map<std::string, Duration> longest_intervals{};  // PhaseIntervals
  std::optional<Finished> finished{};  // the job is over; kept for agents that missed it

  bool operator==(const JobRecord&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_JOB_RECORD_H_
