// Whether one of several rendezvous leads, and its knowledge of the leader, for `ddprun status` and
// metrics. Plain values.
#ifndef DDPRUN_RENDEZVOUS_CORE_MEASURES_LEADERSHIP_STATUS_H_
#define DDPRUN_RENDEZVOUS_CORE_MEASURES_LEADERSHIP_STATUS_H_

#include <cstdint>
#include <string>

#include "rendezvous/core/term.h"
#include "rendezvous/core/types.h"

namespace ddprun {

struct LeadershipStatus {
  bool leads = false;         // false: it stands by
  Term term{};                // of the leader that it knows, possibly itself
  std::string leader;         // address of that leader; "": not known
  Duration valid_for{};       // how long it may still lead without etcd (validity.h); 0: not at all
  std::uint64_t changes = 0;  // new terms seen by this process
  bool reached = false;       // etcd has answered recently
  std::string trouble;        // why etcd accepts no change of the jobs; "": it does
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CORE_MEASURES_LEADERSHIP_STATUS_H_
