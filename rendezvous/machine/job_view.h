// JobView: what there is to know of a job, and what is said of it. Pure functions of what they see.
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

// Belongs to a JobMachine, and lasts as long as nothing changes there.
struct JobView {
  const std::string& job;
  TimePoint now;
  const JobLife& life;
  const GenerationState& generation;
  Generation newest;  // that any agent has been in
  const Roster& roster;
  const Timeline& timeline;
  const std::optional<Finished>& finished;

  JobState state() const { return life.stage.state; }
  // A worker of a member may run.
  bool running() const { return state() == JobState::kRunning || state() == JobState::kSaving; }
  StateJudge judge() const { return {timeline, life.requeue_number, newest}; }
};

// Who is missing, as far as it can be known: by the ranks that nobody has asked for, by who was
// here.
std::string MissingNodes(const JobView& view);
// The free nodes whose disk has yet to answer; a few names.
std::string HostsWithPendingStates(const JobView& view);
// What those who have joined wait for. The job has its JobSpec.
std::string WhyItWaits(const JobView& view);
// What a node that has joined waits for, in a job that does not gather.
std::string WhyNewcomerWaits(const JobView& view, const Node& newcomer);
// Why the job is in this state; empty where there is nothing to say.
std::string StateReason(const JobView& view);
// Who is missing at an agent's store; nullopt: nobody, or nobody has come, or it is not known.
std::optional<JobStatus::Arrivals> ArrivalsOf(const GenerationState& generation,
                                              const Roster& roster);
JobStatus::Measured MeasuredOf(const JobView& view);
enum class StatusDetail { kAll, kWithoutNodes };
JobStatus StatusOf(const JobView& view, StatusDetail detail = StatusDetail::kAll);
// What a member is told of its place in the generation.
Assignment AssignmentOf(const JobView& view, const Node& node);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_JOB_VIEW_H_
