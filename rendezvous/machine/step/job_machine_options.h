// What a rendezvous settles for the JobMachines of all its jobs.
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
  // False: a node whose session breaks is lost at once, and silence means nothing. For a rendezvous
  // that lives and stops (Ctrl-Z) in the same process as its only agent. Else JobSpec::lease holds.
  bool leases = true;
  // No lease ends before `leases_from` + JobSpec::lease, whatever was heard. Until `leases_from` a
  // rendezvous that this one takes the place of may acknowledge heartbeats; it forms nothing.
  TimePoint leases_from = TimePoint::min();
  // An agent that does not prepare its assignment for this long is lost.
  Duration forming_timeout = std::chrono::seconds(30);
  // A worker failed because a peer did, and the peer is not known: so long its own failure is
  // waited for, before everybody is stopped.
  Duration victim_grace = std::chrono::seconds(1);
  // Agents that wait are told what for when they have waited so long; then after twice that, ...
  Duration tell_after = std::chrono::seconds(1);
  // For the stacks of all ranks: a node that has not answered by then is named and not waited for.
  Duration stacks_timeout = std::chrono::seconds(5);
  StackPace stacks_pace{};
  // The stacks at a hang go to every node, or to the first ones where this would be more.
  std::size_t hang_bytes_of_all_nodes = 64 << 20;
  int max_agents = kMaxNodes;  // of one job, spares included
  // Random, and another one for each rendezvous: the ids of runs are made of it. The same seed and
  // the same events give the same ids.
  std::uint64_t seed = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_MACHINE_STEP_JOB_MACHINE_OPTIONS_H_
