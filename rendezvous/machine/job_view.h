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
#include "rendezvous/machine/restore_choice.h"
#include "rendezvous/machine/roster.h"
#include "rendezvous/machine/timeline.h"

namespace ddprun {

// Belongs to a JobMachine, and lasts as long as nothing changes there.
struct JobView {
  const std::string& job;
  JobState state;
  TimePoint now;
  TimePoint since;  // in this state
  const JobLife& life;
  const GenerationState& generation;
  Generation newest;  // that any agent has been in
  const Roster& roster;
  const Timeline& timeline;
  bool on_hold;        // workers that are not ours may still live
  bool awaits_states;  // there are enough nodes, and the disk of one has yet to answer
  const std::optional<Finished>& finished;

  // A worker of a member may run.
  bool running() const { return state == JobState::kRunning || state == JobState::kSaving; }
  StateJudge judge() const { return {timeline, life.requeue_number, newest}; }
};

// Who is missing, as far as it can be known: by the ranks that nobody has asked for, by who was
// here.
std::string MissingNodes(const JobView& view);
// The free nodes whose disk has yet to answer; a few names.
std::string HostsWithPendingStates(const JobView& view);
// What those who have joined wait for. The job has its JobSpec.
std::string WhyItWaits(const JobView& view);
// Why the job is in this state; empty where there is nothing to say.
std::string StateReason(const JobView& view);
// Who is missing at an agent's store; nullopt: nobody, or nobody has come, or it is not known.
std::optional<JobStatus::Arrivals> ArrivalsOf(const JobView& view);
JobStatus StatusOf(const JobView& view);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_JOB_VIEW_H_
