// GenerationState: the state of one generation of a job, from its forming until the next one forms.
//
// A value: JobMachine replaces it whole when the next generation forms.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_GENERATION_STATE_H_
#define DDPRUN_RENDEZVOUS_MACHINE_GENERATION_STATE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/measures/step_rate.h"
#include "rendezvous/core/progress.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/saved_state.h"
#include "rendezvous/core/types.h"
#include "rendezvous/hangs/collective_calls.h"
#include "rendezvous/hangs/hang_watch.h"
#include "rendezvous/hangs/stack_findings.h"

namespace ddprun {

// A planned end of the generation, and what happens then. Requested by an operator, a scheduler, a
// joining node, or a worker that needs another store.
struct Plan {
  bool stop = false;  // true: stop the job; false: the group forms again
  bool save = false;  // make a checkpoint first
  bool saved = false;
  bool preempted = false;  // by a scheduler: the job can resume later from any durable state
  bool for_store = false;  // the members stay: rank 0's worker will serve torch's store
  std::string reason;

  // Adds another plan to this one, which is already being carried out.
  void Add(Plan other) {
    stop = stop || other.stop;
    save = save && other.save;
    preempted = preempted || other.preempted;
    for_store = for_store && other.for_store;
    reason = std::move(other.reason);
  }
  bool operator==(const Plan&) const = default;
};

// The part of a generation that JobRecord keeps.
struct GenerationRecord {
  std::string master_addr;
  int master_port = 0;
  std::optional<RestorePlan> restore;  // the state that it begins with
  std::optional<Plan> plan;

  bool operator==(const GenerationRecord&) const = default;
};

// Sums over the generation's nodes. Each message updates them, because adding up thousands of nodes
// each time would be slow.
struct Tally {
  int world_size = 0;
  int workers_ended = 0;
  int workers_succeeded = 0;
  int cannot_save = 0;  // nodes
  StepRate rate;        // for people
};

// Nodes lost since the generation formed.
struct Absences {
  bool lost_silently = false;     // a node was lost silently: it may come back
  std::vector<std::string> lost;  // hosts with the reason, for people
  std::string
      ineligible_host;  // the newest host that is not fit (Join::why_ineligible); empty: none
  std::string why_ineligible;
};

// What HangJudge remembers between two evaluations of a generation.
struct HangSuspicion {
  // Set after a hang that did not end the generation, because a rank was busy.
  struct AtWork {
    std::optional<Rank> rank;  // nullopt: any rank may be at work
  };
  // The findings of the last stacks. They stay valid while a node is silent: silence alone is no
  // reason to take stacks again.
  struct Found {
    StackFindings::Culprit culprit;
    std::vector<std::string> missing;
    TimePoint last_moved;  // HangWatch::last_moved() when the stacks were judged
  };
  std::optional<TimePoint> again;  // a hang is not considered again before this time
  std::optional<AtWork> at_work;
  std::optional<Found> found;
};

// Notices that were sent to the agents' consoles, besides verdicts.
struct HangNotices {
  std::vector<std::string> excuses;    // long excuses (HangExcuse); also events
  std::optional<TimePoint> init_look;  // the next look for ranks missing in init()
  bool init_wait = false;              // the missing ranks were reported
};

struct GenerationState : GenerationRecord {
  GenerationState() = default;
  explicit GenerationState(Generation its_number) : number(its_number), incidents(its_number) {}

  Generation number{-1};  // before the first forming
  TimePoint started_at;   // the start of its workers
  Duration ran{};         // from started_at until the stop
  Tally tally;
  std::optional<TimePoint> succeeded_at;      // when the last worker so far exited with 0
  std::optional<std::int64_t> furthest_step;  // the highest step that a worker reported
  std::optional<Duration> start;              // Stopped::start of the slowest node so far
  Incidents incidents;
  EnteredCalls calls;  // the last collectives of ranks that ended
  HangWatch hang;
  HangSuspicion suspicion;
  HangNotices notices;
  std::string hang_report;   // of the newest hang; empty: no hang yet
  std::string hung_host;     // the host to blame for the hang; empty: none
  bool planned_end = false;  // a plan ends the generation, not a failure
  std::string stop_reason;
  std::optional<StoreArrivals> arrivals;  // Heartbeat::arrivals of rank 0's node
  std::optional<TimePoint> victim_grace;  // only victims are known: wait until then
  std::optional<TimePoint> growth;        // when waiting nodes are admitted
  Absences absences;

  // A worker has finished this step.
  void Reached(std::optional<std::int64_t> step) { furthest_step = std::max(furthest_step, step); }
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_GENERATION_STATE_H_
