// LeaderRecord: what a leader writes under etcd's leader key. Plain values.
#ifndef DDPRUN_RENDEZVOUS_LEADERSHIP_LEADER_RECORD_H_
#define DDPRUN_RENDEZVOUS_LEADERSHIP_LEADER_RECORD_H_

#include <cstdint>
#include <string>

#include "rendezvous/core/types.h"

namespace ddprun {

struct LeaderRecord {
  std::string id;        // of the process that wrote it: random
  std::string endpoint;  // where agents and standbys reach it, "HOST:PORT"
  Duration validity{};   // its own: after sending a renewal it may acknowledge for this long
  // The longest validity of this leader and of all earlier leaders that may still be valid. Once
  // this leader has resigned, its own validity does not count.
  Duration longest_validity{};
  // The leader has handed over, and stopped acknowledging before it wrote this: nobody leads.
  bool resigned = false;
  // The id of the etcd cluster whose state is known to be complete: it has every job that an agent
  // runs. 0, or the id of another cluster (etcd was restored or replaced): not known, so a new
  // leader waits before it forms groups (Leadership::Lead::restored).
  std::uint64_t complete_in = 0;

  bool operator==(const LeaderRecord&) const = default;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_LEADERSHIP_LEADER_RECORD_H_
