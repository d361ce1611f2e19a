// Options of a rendezvous for the JobMachines of all its jobs.
#ifndef DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_MACHINE_OPTIONS_H_
#define DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_MACHINE_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "rendezvous/core/limits.h"
#include "rendezvous/core/types.h"
#include "rendezvous/hangs/stack_collection.h"

namespace ddprun {

struct JobMachineOptions {
  // False: a node is lost as soon as its session breaks, and silence has no effect. For a
  // rendezvous in the same process as its only agent: both are stopped together (Ctrl-Z). True:
  // JobSpec::lease counts.
  bool leases = true;
  // No lease ends before `leases_from` + JobSpec::lease, whatever messages arrived. Until
  // `leases_from` the predecessor of this rendezvous may acknowledge heartbeats; it forms no
  // groups.
  TimePoint leases_from = TimePoint::min();
  // Agents may run jobs, or newer generations, that are not recorded: until `leases_from` + the
  // lease no group forms, and no node gets the ranks that it has in a record.
  bool restored = false;
  // Joins with another lease are refused.
  Duration shortest_lease{};
  Duration longest_lease = kMaxLease;
  // An agent that does not prepare its assignment for this long is lost.
  Duration forming_timeout = std::chrono::seconds(30);
  // If only victims are known, the stop waits this long for the failure of the peer that caused
  // them.
  Duration victim_grace = std::chrono::seconds(1);
  // Waiting agents are told why after this time, then after twice that time, and so on, up to every
  // minute.
  Duration tell_after = std::chrono::seconds(1);
  // How long a request for stacks waits for the nodes.
  Duration stacks_timeout = std::chrono::seconds(5);
  StackPace stacks_pace{};
  // At a hang the tree of stacks goes to every node, or only to the first ones if all copies
  // together would exceed this.
  std::size_t hang_bytes_of_all_nodes = 64 << 20;
  int max_agents = kMaxNodes;  // of one job, spares included
  // Random, different for each rendezvous: run ids and request ids derive from it. Equal seeds and
  // events give equal ids.
  std::uint64_t seed = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_MACHINE_OPTIONS_H_
