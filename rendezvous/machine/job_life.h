// JobLife: the state of a job under one requeue number, from the first Join until the job is
// started again. This is a "life" of the job.
//
// A value: JobMachine replaces it whole when the next life begins.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_JOB_LIFE_H_
#define DDPRUN_RENDEZVOUS_MACHINE_JOB_LIFE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/failed_checkpoints.h"
#include "rendezvous/core/job_spec.h"
#include "rendezvous/core/job_status.h"
#include "rendezvous/core/measures/job_counters.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/saved_state.h"
#include "rendezvous/core/types.h"
#include "rendezvous/hangs/hang_watch.h"
#include "rendezvous/machine/nodes/quarantine.h"
#include "rendezvous/machine/restart_governor.h"

namespace ddprun {

// The part of a life that JobRecord keeps.
struct LifeRecord {
  std::uint32_t requeue_number = 0;
  RunId run_id;  // drawn at the first forming, or taken over from an agent's Join
  // Root causes of the ended generations: the first and the last ones, kMaxEarlierCauses in all.
  // After the job's end: only the last one.
  std::vector<RootCause> causes;
  bool reports_checkpoints = false;
  std::optional<std::int64_t> checkpoint;  // step of the newest reported checkpoint
  Generation checkpoint_generation{-1};    // whose workers made it; −1: not known
  bool needs_worker_store = false;         // the program cannot use a store that an agent serves

  bool operator==(const LifeRecord&) const = default;
};

// The state that a job is in. JobMachine::Enter replaces it whole.
struct Stage {
  JobState state = JobState::kGathering;
  TimePoint since{};
  std::optional<TimePoint> deadline{};  // this state ends then at the latest; nullopt: no limit
};

// StateSurvey's wait for a disk that may hold the newest state. Begins when there are enough nodes.
struct StatesWait {
  TimePoint until;
  std::optional<std::int64_t> furthest;  // FurthestPossibleStep()
  bool news = false;                     // a node has reported a state of that step
  int pending = 0;                       // Roster::states_pending() at the last check
};

// The gathering of nodes for one generation. Replaced whole when a gathering begins and when the
// group forms.
struct GatheringState {
  std::optional<TimePoint> report{};  // when to report to waiting agents why they wait
  Duration report_interval{};
  std::optional<StatesWait> states_wait{};
};

// What the ranks have reported about their progress in all generations.
struct ReportedProgress {
  PhaseIntervals intervals;
  bool any = false;
  bool names_phases = false;  // the program has named a phase
};

// When the newest states were made, for people.
struct StateTimes {
  std::optional<TimePoint> checkpoint;  // when the newest durable state was reported
  std::optional<TimePoint> start;       // of the first generation that ran
  std::optional<TimePoint> snapshot;    // when a node reported `newest`
  // Newest snapshot: generation and step.
  std::pair<Generation, std::int64_t> newest{Generation{-1}, -1};

  void TakeSnapshots(const std::vector<SavedState>& states, TimePoint now) {
    for (const SavedState& state : states) {
      const std::pair held(state.generation, state.step);
      if (state.tier != Tier::kMemory || held <= newest) continue;
      newest = held;
      snapshot = now;
    }
  }
};

struct JobLife : LifeRecord {
  JobLife() = default;
  explicit JobLife(std::uint32_t number, TimePoint now = {}) : stage{.since = now} {
    requeue_number = number;
  }

  Stage stage;
  GatheringState gathering;
  std::optional<JobSpec> spec;  // from the first Join
  TimePoint begun_at;           // time of the first Join
  // Before this time no group forms: workers that this rendezvous did not start, or workers of an
  // earlier life, may still run. This is not the takeover hold of leases.md, in which groups form.
  std::optional<TimePoint> hold_until;
  int agents_joined = 0;
  std::optional<RestartGovernor> governor;  // from the first Join
  std::optional<Quarantine> quarantine;     // from the first Join
  LateAdmission late_admission;
  std::optional<TimePoint> next_admission;  // when the next held-back node is admitted
  ReportedProgress progress;                // input of HangWatch
  // True: the job ends once no node is left. Each loss of a node sets it: to false if a node was
  // lost silently in this generation (it may come back), otherwise to true.
  bool abandoned = false;
  bool has_states = false;  // a node has reported a state, which may be lost since
  FailureTally failures;    // failed checkpoints
  StateTimes state_times;
  JobCounters counters;
  bool has_checkpoint_folder = false;  // the workers of a node have a checkpoint folder
  // The roles (--role) whose program can be a warm standby, as one of its workers has shown.
  std::set<std::string> roles_that_stand_by;
  bool warned_of_arguments = false;  // the first node got the warning about arguments

  // True if the agent of rank 0's node serves torch's store in the next generation.
  bool uses_agent_store() const { return spec->store == kAgentStore && !needs_worker_store; }
  // True if nodes have reported a checkpoint folder, a checkpoint, or a failed checkpoint.
  bool saves_checkpoints() const {
    return has_checkpoint_folder || reports_checkpoints || failures.total().count > 0;
  }
  int restarts_used() const { return governor ? governor->restarts_used() : 0; }
  // Hosts whose nodes the job excludes (quarantine.h).
  std::vector<std::string> excluded_hosts() const {
    return quarantine ? quarantine->hosts() : std::vector<std::string>();
  }
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_JOB_LIFE_H_
