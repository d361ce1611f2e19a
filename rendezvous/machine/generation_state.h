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

// What happens when the generation ends: requested by an operator, a scheduler, a joining node, or
// a worker that needs another store.
struct Plan {
  bool stop = false;  // stop the job; else the group forms again
  bool save = false;  // a checkpoint is wanted first
  bool saved = false;
  bool preempted = false;  // by a scheduler: the job can resume later from any durable state
  bool for_store = false;  // the members stay: rank 0's worker will serve torch's store
  std::string reason;

  // Combines this plan, which is carried out already, with another one.
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

// Sums over the generation's nodes, updated with each message: a job has thousands of nodes.
struct Tally {
  int world_size = 0;
  int workers_ended = 0;
  int workers_succeeded = 0;
  int cannot_save = 0;  // nodes
  StepRate rate;        // for people
};

// Nodes lost since the generation formed.
struct Absences {
  bool lost_silently = false;     // of some node: it may come back
  std::vector<std::string> lost;  // hosts with the reason, for people
  std::string ineligible_host;    // the newest host that must stay out; empty: none
  std::string why_ineligible;
};

// What HangJudge remembers between two evaluations of a generation.
struct HangSuspicion {
  // Set if a rank was busy, so the generation was not ended.
  struct AtWork {
    std::optional<Rank> rank;  // nullopt: the rank is not known
  };
  // The findings, kept while a node is not heard: its silence alone is no reason to take stacks
  // again.
  struct Found {
    StackFindings::Culprit culprit;
    std::vector<std::string> missing;
    TimePoint last_moved;  // HangWatch::last_moved() then
  };
  std::optional<TimePoint> again;  // a hang is not considered again before this time
  std::optional<AtWork> at_work;
  std::optional<Found> found;
};

// Messages to the consoles other than verdicts.
struct HangNotices {
  std::vector<std::string> excuses;    // the history has them too
  std::optional<TimePoint> init_look;  // the next look for ranks missing in init()
  bool init_wait = false;              // there were such ranks
};

struct GenerationState : GenerationRecord {
  GenerationState() = default;
  explicit GenerationState(Generation its_number) : number(its_number), incidents(its_number) {}

  Generation number{-1};  // before the first forming
  TimePoint started_at;   // the start of its workers
  Duration ran{};         // from started_at until the stop
  Tally tally;
  std::optional<TimePoint> succeeded_at;      // when the newest worker exited with 0
  std::optional<std::int64_t> furthest_step;  // the highest step that a worker told
  std::optional<Duration> start;              // of the slowest node so far: spawn until at work
  Incidents incidents;
  EnteredCalls calls;  // the last collectives of ranks that ended
  HangWatch hang;
  HangSuspicion suspicion;
  HangNotices notices;
  std::string hang_report;   // of the newest hang; empty: none was called
  std::string hung_host;     // the host to blame for the hang; empty: none
  bool planned_end = false;  // its plan ends it, not a failure
  std::string stop_reason;
  std::optional<StoreArrivals> arrivals;  // until all ranks have connected to an agent's store
  std::optional<TimePoint> victim_grace;  // only victims are known: until then the cause is awaited
  std::optional<TimePoint> growth;        // when the group grows by the nodes that wait then
  Absences absences;

  // A worker has finished this step.
  void Reached(std::optional<std::int64_t> step) { furthest_step = std::max(furthest_step, step); }
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_GENERATION_STATE_H_
