#include "rendezvous/core/measures/job_counters.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "rendezvous/core/measures/restart_phases.h"

namespace ddprun {
namespace {

// The phases of RestartClock and of the worker library. A program may use other names.
constexpr std::string_view kPhases[] = {"stop",          "round", "spawn",   "load",
                                        "process_group", "setup", "restore", "first_step"};

}  // namespace

std::string_view KnownPhase(std::string_view name) {
  const auto* const known = std::find(std::begin(kPhases), std::end(kPhases), name);
  return known == std::end(kPhases) ? JobCounters::kOther : *known;
}

void JobCounters::AddRecovery(const RestartTimes& times) {
  for (const PhaseTime& phase : times.phases) {
    recovery[KnownPhase(phase.name)].Add(std::chrono::microseconds(phase.microseconds));
  }
}

}  // namespace ddprun
