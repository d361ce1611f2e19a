// The present state of a rendezvous process, for `ddprun status` and metrics. Plain values.
#ifndef DDPRUN_RENDEZVOUS_CORE_MEASURES_DAEMON_STATUS_H_
#define DDPRUN_RENDEZVOUS_CORE_MEASURES_DAEMON_STATUS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "rendezvous/core/measures/leadership_status.h"
#include "rendezvous/core/types.h"

namespace ddprun {

struct DaemonStatus {
  std::string version;
  Duration uptime{};
  std::size_t sessions = 0;
  std::size_t jobs_begun = 0;                    // since the start
  int descriptors = 0;                           // open now; a lower bound; 0: not known
  int descriptor_limit = 0;                      // agents are refused above it
  std::size_t event_lines_dropped = 0;           // lines that the event file lost
  std::map<std::string, std::uint64_t> refused;  // by reason, since the start
  std::optional<LeadershipStatus> leadership;    // nullopt: this rendezvous is alone
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MEASURES_DAEMON_STATUS_H_
