// JobLife: what belongs to one life of a job, from its first Join until it is started again.
//
// A value: JobMachine replaces it whole when the next life begins.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_JOB_LIFE_H_
#define DDPRUN_RENDEZVOUS_MACHINE_JOB_LIFE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/failed_checkpoints.h"
#include "rendezvous/core/job_spec.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/types.h"
#include "rendezvous/hangs/hang_watch.h"
#include "rendezvous/machine/nodes/quarantine.h"
#include "rendezvous/machine/restart_governor.h"

namespace ddprun {

// What an operator, a scheduler or a newcomer wants done between two generations.
struct Plan {
  bool stop = false;  // the job; else it forms anew
  bool save = false;  // a checkpoint is wanted first
  bool saved = false;
  bool preempted = false;  // by a scheduler: any durable state is worth to be started again from
  bool for_store = false;  // the members stay: rank 0's worker is to serve torch's store
  std::string reason;

  // One is being carried out already, and this one is wanted too.
  void Add(Plan other) {
    stop = stop || other.stop;
    save = save && other.save;
    preempted = preempted || other.preempted;
    for_store = for_store && other.for_store;
    reason = std::move(other.reason);
  }
};

// Who is missing, since the last forming.
struct Absences {
  bool lost_silently = false;     // some node: it may come back
  std::vector<std::string> lost;  // hosts, with the reason, for people
  std::string ineligible_host;    // the last one that must stay out; empty: none
  std::string why_ineligible;
};

// What its ranks have told of how far they are, in all generations.
struct ReportedProgress {
  PhaseIntervals intervals;
  bool any = false;
  bool names_phases = false;  // its program has named a phase
};

struct JobLife {
  JobLife() = default;
  explicit JobLife(std::uint32_t number) : requeue_number(number) {}

  std::uint32_t requeue_number = 0;
  RunId run_id;                 // from the first forming, or as an agent has presented it
  std::optional<JobSpec> spec;  // from the first Join
  TimePoint begun_at;           // when it came
  int agents_joined = 0;
  std::optional<RestartGovernor> governor;  // from the first Join
  std::optional<Quarantine> quarantine;     // from the first Join
  LateAdmission late_admission;
  std::optional<Plan> plan;
  Absences absences;
  ReportedProgress progress;       // for what counts as a hang
  bool abandoned = false;          // the last node that went will not come back
  bool saved_for_removed = false;  // the nodes that are to go leave a checkpoint behind
  // Of the generations that have ended: the first, and the last ones; kMaxEarlierCauses in all.
  std::vector<RootCause> causes;
  bool reports_checkpoints = false;
  std::optional<std::int64_t> checkpoint;  // the newest that was reported
  bool has_states = false;                 // some node holds a state
  FailureTally failures;                   // of checkpoints
  bool warned_of_arguments = false;        // a node that was there before another one
  bool needs_worker_store = false;         // the program cannot use a store that an agent serves

  // The agent of rank 0's node serves the store of the next generation.
  bool uses_agent_store() const { return spec->store == kAgentStore && !needs_worker_store; }
  int restarts_used() const { return governor ? governor->restarts_used() : 0; }
  // That are left out.
  std::vector<std::string> excluded_hosts() const {
    return quarantine ? quarantine->hosts() : std::vector<std::string>();
  }
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_JOB_LIFE_H_
