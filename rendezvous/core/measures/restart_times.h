// Durations of the phases of a restart on one node.
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
  Generation generation;  // the started generation
  int warm_workers = 0;   // workers of this node that were warm standbys
  // False: the generation or the job ended before every worker made a step.
  bool to_first_step = true;
  // In sequence, from the end of the previous generation. The slowest worker of the node decides
  // when a phase ends.
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
