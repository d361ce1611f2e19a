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
#include "rendezvous/core/job_status.h"
#include "rendezvous/core/measures/job_counters.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/saved_state.h"
#include "rendezvous/core/types.h"
#include "rendezvous/hangs/hang_watch.h"
#include "rendezvous/machine/nodes/quarantine.h"
#include "rendezvous/machine/restart_governor.h"

namespace ddprun {

// What of a life the rendezvous persists as it is: JobRecord has it too.
struct LifeRecord {
  std::uint32_t requeue_number = 0;
  RunId run_id;  // from the first forming, or as an agent has presented it
  // Of the generations that have ended: the first, and the last ones; kMaxEarlierCauses in all.
  std::vector<RootCause> causes;
  bool reports_checkpoints = false;
  std::optional<std::int64_t> checkpoint;  // the newest that was reported
  bool needs_worker_store = false;         // the program cannot use a store that an agent serves

  bool operator==(const LifeRecord&) const = default;
};

// The state that a job is in. JobMachine::Enter replaces it whole.
struct Stage {
  JobState state = JobState::kGathering;
  TimePoint since{};
  std::optional<TimePoint> deadline{};  // when it ends, unless something else happens first
};

// The wait for a disk that may hold the newest state, once there are enough nodes: StateSurvey.
struct StatesWait {
  TimePoint until;
  std::optional<std::int64_t> furthest;  // FurthestPossibleStep()
  bool news = false;                     // a node has told of a state of this step
  int pending = 0;                       // Roster::states_pending(), when it was looked at last
};

// While nodes come together for a generation. Replaced whole when that begins, and when they form.
struct GatheringState {
  std::optional<TimePoint> report{};  // to those who wait, what for
  Duration report_interval{};
  std::optional<StatesWait> states_wait{};
};

// What its ranks have told of how far they are, in all generations.
struct ReportedProgress {
  PhaseIntervals intervals;
  bool any = false;
  bool names_phases = false;  // its program has named a phase
};

// When the training's newest states were made, for people.
struct StateTimes {
  std::optional<TimePoint> checkpoint;  // when the newest durable one was reported
  std::optional<TimePoint> start;       // of the first generation that ran
  std::optional<TimePoint> snapshot;    // when a node told of `newest`
  std::pair<Generation, std::int64_t> newest{Generation{-1}, -1};  // in memory: it, and its step

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
  TimePoint begun_at;           // when it came
  // Workers that are not of this life, or not known, may live until then: nothing is formed.
  std::optional<TimePoint> hold_until;
  int agents_joined = 0;
  std::optional<RestartGovernor> governor;  // from the first Join
  std::optional<Quarantine> quarantine;     // from the first Join
  LateAdmission late_admission;
  std::optional<TimePoint> next_admission;  // of a node that is held back
  ReportedProgress progress;                // for what counts as a hang
  bool abandoned = false;                   // the last node that went will not come back
  bool has_states = false;                  // some node holds a state
  FailureTally failures;                    // of checkpoints
  StateTimes state_times;
  JobCounters counters;
  bool has_checkpoint_folder = false;  // a node's workers are given one
  bool warned_of_arguments = false;    // a node that was there before another one

  // The agent of rank 0's node serves the store of the next generation.
  bool uses_agent_store() const { return spec->store == kAgentStore && !needs_worker_store; }
  // As far as its nodes tell: a folder, or a checkpoint that was saved or could not be.
  bool saves_checkpoints() const {
    return has_checkpoint_folder || reports_checkpoints || failures.total().count > 0;
  }
  int restarts_used() const { return governor ? governor->restarts_used() : 0; }
  // That are left out.
  std::vector<std::string> excluded_hosts() const {
    return quarantine ? quarantine->hosts() : std::vector<std::string>();
  }
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_JOB_LIFE_H_
