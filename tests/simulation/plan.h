// The plan of a run, from its seed: the job, the machines, the network, and the kinds of faults.
#ifndef DDPRUN_TESTS_SIMULATION_PLAN_H_
#define DDPRUN_TESTS_SIMULATION_PLAN_H_

#include <array>

#include "rendezvous/core/messages.h"
#include "rendezvous/machine/job_machine.h"
#include "tests/simulation/random.h"
#include "tests/simulation/scheduler.h"

namespace ddprun::sim {

// Several rendezvous over etcd.
struct SeveralPlan {
  int daemons = 1;
  // How long a leader may lead without etcd. A process takes one of the two when it begins.
  std::array<Duration, 2> validity{};
  bool restores = false;  // etcd is emptied, or restored from a snapshot, once
  bool fills = false;     // etcd is full for a while
  int faults = 0;         // faults of the rendezvous and of etcd
};

struct Plan {
  JobSpec spec;
  JobMachineOptions machine;
  Duration stop_grace{};
  Duration kill_grace{};
  Duration daemon_grace{};
  Duration connect_timeout{};

  int hosts = 2;
  int workers_per_host = 1;
  bool ranked = false;  // each host asks for a node rank of its own
  int total_steps = 10;
  Time step_time = 0;
  int checkpoint_every = 0;      // steps; 0: the workers report none
  bool workers_speak = true;     // the control socket
  bool states = false;           // agents report their node's states; else workers find them
  int snapshot_every = 0;        // steps, in memory, on every node; some fail. 0: none
  int flapping_host = -1;        // is killed soon after each start of its workers, and returns
  bool shared_disk = false;      // for checkpoints; else each host has its own
  bool stays = false;            // workers leave a generation instead of ending with it
  bool tells_optimizer = false;  // workers that stay report when their parameters change
  bool buffers = false;          // their model has buffers, like BatchNorm's
  int stuck_workers = 0;         // times that a worker waits for a disk, and cannot be ended

  Time shortest_delay = 0;  // of a message
  Time longest_delay = 0;
  bool duplicates = false;  // messages other than Join may arrive twice
  Time longest_fsync = 0;
  bool memory_store = false;  // a restarted daemon knows nothing
  SeveralPlan several;
  // Whether the rendezvous may lose its record of the job, or get back an older one.
  bool forgets() const { return memory_store || several.restores; }

  // No fault that may cost a generation: sessions break and both ends notice it, or the daemon is
  // killed and comes back from its journal. With several rendezvous: the leader is lost, or etcd is
  // full. The workers must never be restarted.
  bool benign = false;
  int faults = 0;
  Time faults_end = 0;  // every fault is healed then
};

Plan MakePlan(Random& random);
// The same run with several rendezvous.
Plan WithSeveral(Plan plan, Random& random);
// Takes a generator of its own, so that faults of etcd's data do not change the other draws.
void PlanEtcd(Random& random, Plan* plan);
// Takes a generator of its own, so that states and requested ranks do not change the other draws.
void PlanStates(Random& random, Plan* plan);
// Also takes a generator of its own.
void PlanStuck(Random& random, Plan* plan);
// Also takes a generator of its own. Call it after PlanStates().
void PlanStays(Random& random, Plan* plan);

// How long after the last fault a job may take to end; docs/internals/simulation.md explains each
// term.
Time LivenessBound(const Plan& plan);

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_PLAN_H_
