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
  // True: a node is lost after a silence of JobSpec::lease. False: a node is lost as soon as its
  // session breaks, and silence has no effect. False if the rendezvous runs in the process of its
  // only agent, where Ctrl-Z suspends both.
  bool leases = true;
  // No lease ends before `leases_from` + JobSpec::lease, whatever messages arrived. Until
  // `leases_from` earlier leaders may still acknowledge heartbeats. An earlier leader starts no new
  // group, because etcd no longer takes its records. JobLoop::Lead sets it to the end of the
  // takeover hold, which Leadership computes.
  TimePoint leases_from = TimePoint::min();
  bool one_of_several() const { return leases_from != TimePoint::min(); }
  // Agents may run jobs, or newer generations, that are not recorded. So no group forms until
  // `leases_from` + the lease. Until then a node gets its recorded ranks only if its agent is in
  // the recorded generation.
  bool restored = false;
  // Joins with a shorter or longer lease are refused.
  Duration shortest_lease{};
  Duration longest_lease = kMaxLease;
  // An agent that does not acknowledge its assignment within this time is lost.
  Duration forming_timeout = std::chrono::seconds(30);
  // If only victims have failed, the stop waits this long for the failure of the root cause.
  Duration victim_grace = std::chrono::seconds(1);
  // While nodes gather, they are told the reason after this time. The interval then doubles, up to
  // one minute.
  Duration tell_after = std::chrono::seconds(1);
  // How long a request for stacks waits for the nodes.
  Duration stacks_timeout = std::chrono::seconds(5);
  StackPace stacks_pace{};
  // Limit for all copies of the stack tree that are sent at a hang. With many nodes the tree is
  // cut; with even more, only the first nodes get it.
  std::size_t hang_bytes_of_all_nodes = 64 << 20;
  int max_agents = kMaxNodes;  // of one job, spares included
  // Random, different for each rendezvous. Run ids and request ids derive from it: equal seeds and
  // events give equal ids.
  std::uint64_t seed = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_MACHINE_OPTIONS_H_
