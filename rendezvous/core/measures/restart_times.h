// How long a restart took on one node, phase by phase.
#ifndef DDPRUN_RENDEZVOUS_CORE_MEASURES_RESTART_TIMES_H_
#define DDPRUN_RENDEZVOUS_CORE_MEASURES_RESTART_TIMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/core/types.h"

namespace ddprun {

struct PhaseTime {
  std::string name;
  std::int64_t microseconds = 0;

  bool operator==(const PhaseTime&) const = default;
};

struct RestartTimes {
  Generation generation;      // the one that was started
  int warm_workers = 0;       // of this node: how many had been warm standbys
  bool to_first_step = true;  // false: it ended, or the job, before every worker had made a step
  // One after the other, from the end of the generation before. The slowest worker of the node
  // decides when a phase ends.
  std::vector<PhaseTime> phases;

  std::int64_t total_microseconds() const {
    std::int64_t total = 0;
    for (const PhaseTime& phase : phases) total += phase.microseconds;
    return total;
  }
  bool operator==(const RestartTimes&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MEASURES_RESTART_TIMES_H_
