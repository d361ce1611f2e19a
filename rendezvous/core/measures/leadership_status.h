// Whether a rendezvous of several leads, for `ddprun status` and metrics. Plain values.
#ifndef DDPRUN_RENDEZVOUS_CORE_MEASURES_LEADERSHIP_STATUS_H_
#define DDPRUN_RENDEZVOUS_CORE_MEASURES_LEADERSHIP_STATUS_H_

#include <cstdint>
#include <string>

#include "rendezvous/core/term.h"
#include "rendezvous/core/types.h"

namespace ddprun {

struct LeadershipStatus {
  bool leads = false;         // else it stands by
  Term term{};                // of the leader that it knows of, perhaps itself
  std::string leader;         // where that one is reached; "": not known
  Duration valid_for{};       // how long it may still acknowledge without etcd; 0 where it may not
  std::uint64_t changes = 0;  // of the leader that this process has seen
  bool reached = false;       // etcd has answered lately
  std::string trouble;        // why etcd takes no change of the jobs; "": it does
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MEASURES_LEADERSHIP_STATUS_H_
