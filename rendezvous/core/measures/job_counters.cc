#include "rendezvous/core/measures/job_counters.h"

#include <algorithm>
#include <chrono>
#include <iterator>

namespace ddprun {
namespace {

// Of RestartClock and the library. A program may name any number of its own.
constexpr std::string_view kPhases[] = {"stop",          "round", "spawn",   "load",
                                        "process_group", "setup", "restore", "first_step"};

}  // namespace

void JobCounters::AddRecovery(const RestartTimes& times) {
  for (const PhaseTime& phase : times.phases) {
    const auto* const known = std::find(std::begin(kPhases), std::end(kPhases), phase.name);
    const std::string_view name = known == std::end(kPhases) ? kOther : *known;
    recovery[name].Add(std::chrono::microseconds(phase.microseconds));
  }
}

}  // namespace ddprun
