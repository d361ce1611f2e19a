// JobCounters: counts of a job's events. A restart of the rendezvous, and a new start of the job,
// reset them, which readers of counters expect. A value.
#ifndef DDPRUN_RENDEZVOUS_CORE_MEASURES_JOB_COUNTERS_H_
#define DDPRUN_RENDEZVOUS_CORE_MEASURES_JOB_COUNTERS_H_

#include <cstdint>
#include <map>
#include <string_view>

#include "rendezvous/core/measures/histogram.h"
#include "rendezvous/core/measures/restart_times.h"

namespace ddprun {

struct JobCounters {
  // By the reason for the end of the earlier generation: NameOf(RootCause::Kind), or kPlanned. Keys
  // are static texts.
  std::map<std::string_view, std::int64_t> restarts{};
  std::int64_t nodes_lost = 0;        // killed, or silent for longer than their lease
  std::int64_t failed_snapshots = 0;  // in memory
  // Durations per node and restart, by phase. Phases that only the program names are counted
  // together, as kOther.
  std::map<std::string_view, Histogram> recovery{};

  // The earlier generation ended as planned: nodes joined, were drained or were preempted, or
  // another process serves torch's store now.
  static constexpr std::string_view kPlanned = "planned";
  static constexpr std::string_view kOther = "other";

  void AddRestart(std::string_view cause) { ++restarts[cause]; }
  // Adds the durations of one restart on one node.
  void AddRecovery(const RestartTimes& times);

  bool operator==(const JobCounters&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MEASURES_JOB_COUNTERS_H_
