// JobCounters: what happened to a job since its rendezvous knows it. Forgotten when the rendezvous
// is started again: whoever reads counters expects that they may begin anew. A value.
#ifndef DDPRUN_RENDEZVOUS_CORE_MEASURES_JOB_COUNTERS_H_
#define DDPRUN_RENDEZVOUS_CORE_MEASURES_JOB_COUNTERS_H_

#include <cstdint>
#include <map>
#include <string_view>

#include "rendezvous/core/measures/histogram.h"
#include "rendezvous/core/measures/restart_times.h"

namespace ddprun {

struct JobCounters {
  // By what ended the generation before: NameOf(RootCause::Kind), or kPlanned. Static texts.
  std::map<std::string_view, std::int64_t> restarts{};
  std::int64_t nodes_lost = 0;  // killed, or silent for longer than their lease
  // Of each node in each restart, by phase. Phases that only the program names are together kOther.
  std::map<std::string_view, Histogram> recovery{};

  static constexpr std::string_view kPlanned = "planned";  // nodes came, went, or were drained
  static constexpr std::string_view kOther = "other";

  void AddRestart(std::string_view cause) { ++restarts[cause]; }
  // How long it took on one node.
  void AddRecovery(const RestartTimes& times);

  bool operator==(const JobCounters&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MEASURES_JOB_COUNTERS_H_
