// GenerationState: what belongs to one generation of a job, from its forming to the next.
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

// What an operator, a scheduler or a newcomer wants done when the generation ends.
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
  bool operator==(const Plan&) const = default;
};

// What of a generation the rendezvous persists as it is: JobRecord has it too.
struct GenerationRecord {
  std::string master_addr;
  int master_port = 0;
  std::optional<RestorePlan> restore;  // what it begins with
  std::optional<Plan> plan;

  bool operator==(const GenerationRecord&) const = default;
};

// What the generation adds up to; counted, because a job has thousands of nodes.
struct Tally {
  int world_size = 0;
  int workers_ended = 0;
  int workers_succeeded = 0;
  int cannot_save = 0;  // nodes
  StepRate rate;        // for people
};

// Who is missing, since the generation formed.
struct Absences {
  bool lost_silently = false;     // some node: it may come back
  std::vector<std::string> lost;  // hosts, with the reason, for people
  std::string ineligible_host;    // the last one that must stay out; empty: none
  std::string why_ineligible;
};

// What HangJudge remembers from one look at a generation to the next.
struct HangSuspicion {
  // It was busy, so it is not ended yet.
  struct AtWork {
    std::optional<Rank> rank;  // not set: it may be any
  };
  // What the stacks have said while a node was not heard: they are not taken again for that.
  struct Found {
    StackFindings::Culprit culprit;
    std::vector<std::string> missing;
    TimePoint last_moved;  // HangWatch::last_moved() then
  };
  std::optional<TimePoint> again;  // not before that a hang is considered once more
  std::optional<AtWork> at_work;
  std::optional<Found> found;
};

struct GenerationState : GenerationRecord {
  GenerationState() = default;
  explicit GenerationState(Generation its_number) : number(its_number), incidents(its_number) {}

  Generation number{-1};  // before the first forming
  TimePoint started_at;   // its workers
  Duration ran{};         // from then until it was stopped
  Tally tally;
  std::optional<TimePoint> succeeded_at;      // the last of its workers that has
  std::optional<std::int64_t> furthest_step;  // that a worker told in it
  std::optional<Duration> start;              // of its slowest node, as far as told
  Incidents incidents;
  EnteredCalls calls;  // the last of its ranks, as they ended
  HangWatch hang;
  HangSuspicion suspicion;
  std::vector<std::string> told_excuses;  // which a line and an event have told
  std::string hang_report;                // of the last hang that was called; empty: none
  std::string hung_host;                  // of the rank that hung and is to blame; empty: none is
  bool planned_end = false;               // it is stopped because of its plan, not of a failure
  std::string stop_reason;
  std::optional<StoreArrivals> arrivals;  // while not all ranks have come to an agent's store
  std::optional<TimePoint> victim_grace;  // for the cause of what has only victims so far
  std::optional<TimePoint> growth;        // newcomers are taken in; until then more may come
  Absences absences;

  // A worker has made this step in it.
  void Reached(std::optional<std::int64_t> step) { furthest_step = std::max(furthest_step, step); }
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_GENERATION_STATE_H_
