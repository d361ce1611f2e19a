// GenerationState: what belongs to one generation of a job, from its forming to the next.
//
// A value: JobMachine replaces it whole when the next generation forms.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_GENERATION_STATE_H_
#define DDPRUN_RENDEZVOUS_MACHINE_GENERATION_STATE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/core/progress.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/saved_state.h"
#include "rendezvous/core/types.h"
#include "rendezvous/hangs/collective_calls.h"
#include "rendezvous/hangs/hang_watch.h"

namespace ddprun {

// What the generation adds up to; counted, because a job has thousands of nodes.
struct Tally {
  int world_size = 0;
  int workers_ended = 0;
  int workers_succeeded = 0;
  int cannot_save = 0;  // nodes
};

struct GenerationState {
  GenerationState() = default;
  explicit GenerationState(Generation its_number) : number(its_number), incidents(its_number) {}

  Generation number{-1};  // before the first forming
  std::string master_addr;
  int master_port = 0;
  std::optional<RestorePlan> restore;  // what it begins with
  TimePoint started_at;                // its workers
  Duration ran{};                      // from then until it was stopped
  Tally tally;
  std::optional<TimePoint> succeeded_at;      // the last of its workers that has
  std::optional<std::int64_t> furthest_step;  // that a worker told in it
  std::optional<Duration> start;              // of its slowest node, as far as told
  Incidents incidents;
  EnteredCalls calls;  // the last of its ranks, as they ended
  HangWatch hang;
  std::string hang_report;   // of the last hang that was called; empty: none
  std::string hung_host;     // of the rank that hung and is to blame; empty: none is
  bool planned_end = false;  // it is stopped because of JobLife::plan, not of a failure
  std::string stop_reason;
  std::optional<StoreArrivals> arrivals;  // while not all ranks have come to an agent's store

  // A worker has made this step in it.
  void Reached(std::optional<std::int64_t> step) { furthest_step = std::max(furthest_step, step); }
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_GENERATION_STATE_H_
