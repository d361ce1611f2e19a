// The part of a job that must outlive the process of its rendezvous. Plain values.
//
// The record is small: after a restart of the rendezvous the agents come back and repeat their
// messages of the current generation. The record holds what only the rendezvous knows: which
// generation was formed from which nodes, and how many restarts were used. So the generation's
// number is not used again, and its ranks are not given to other nodes too early. JobLife,
// GenerationState and Node inherit their parts of the record; RestartGovernor contains its part.
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
  std::vector<NodeRecord> members{};  // of that generation, by node rank
  GovernorRecord governor{};
  std::vector<ResumePoint> timeline{};  // of earlier generations
  FailureRecord failed_checkpoints{};
  QuarantineRecord quarantine{};
  std::map<std::string, Duration> longest_intervals{};  // PhaseIntervals
  std::optional<Finished> finished{};  // the job is over; kept for agents that missed it

  bool operator==(const JobRecord&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_JOB_RECORD_H_
