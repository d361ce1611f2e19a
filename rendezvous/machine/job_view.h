// JobView: a read-only view of a job, and the texts and values derived from it. Pure functions.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_JOB_VIEW_H_
#define DDPRUN_RENDEZVOUS_MACHINE_JOB_VIEW_H_

#include <algorithm>
#include <optional>
#include <string>

#include "rendezvous/core/job_status.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/machine/generation_state.h"
#include "rendezvous/machine/job_life.h"
#include "rendezvous/machine/nodes/roster.h"
#include "rendezvous/machine/states/restore_choice.h"
#include "rendezvous/machine/states/timeline.h"

namespace ddprun {

// Refers to members of a JobMachine. Valid until they change.
struct JobView {
  const std::string& job;
  TimePoint now;
  const JobLife& life;
  const GenerationState& generation;
  Generation newest;  // the newest generation that any agent was in
  const Roster& roster;
  const Timeline& timeline;
  const std::optional<Finished>& finished;

  JobState state() const { return life.stage.state; }
  // The workers run, and the generation is not being stopped.
  bool running() const { return state() == JobState::kRunning || state() == JobState::kSaving; }
  StateJudge judge() const {
    return {timeline, life.requeue_number, newest, generation.furthest_step};
  }
};

// Which nodes are here, and which are missing as far as known: requested ranks that no node has,
// held-back nodes, and nodes lost since the generation formed.
std::string MissingNodes(const JobView& view);
// Names of free nodes whose disk has not answered: at most eight, then the number of the others.
std::string HostsWithPendingStates(const JobView& view);
// Why the joined nodes wait. The job must have a JobSpec.
std::string WhyItWaits(const JobView& view);
// Why a new node has to wait in a job that is not gathering.
std::string WhyNewcomerWaits(const JobView& view, const Node& newcomer);
// Why the job is in this state; "": nothing to say.
std::string StateReason(const JobView& view);
// The ranks missing at an agent's store; nullopt: no rank is missing, no rank has connected yet, or
// the agent has not reported.
std::optional<JobStatus::Arrivals> ArrivalsOf(const GenerationState& generation,
                                              const Roster& roster);
JobStatus::Measured MeasuredOf(const JobView& view);
enum class StatusDetail { kAll, kWithoutNodes };
JobStatus StatusOf(const JobView& view, StatusDetail detail = StatusDetail::kAll);
// The assignment of a member: its place in the generation.
Assignment AssignmentOf(const JobView& view, const Node& node);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_JOB_VIEW_H_
