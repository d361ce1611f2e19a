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
  // A process that begins takes one of them.
  std::array<Duration, 2> validity{};
  int faults = 0;  // of these and of etcd
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
  int checkpoint_every = 0;   // steps; 0: the workers report none
  bool workers_speak = true;  // the control socket
  bool states = false;        // agents tell what their node holds; else workers find it themselves
  int snapshot_every = 0;     // steps, in memory, on every node; some fail. 0: none
  int flapping_host = -1;     // is killed soon after each start of its workers, and comes back
  bool shared_disk = false;   // for checkpoints; else each host has its own
  bool stays = false;         // workers leave a generation, in place of ending with it
  bool tells_optimizer = false;  // workers that stay say when their parameters change
  bool buffers = false;          // their model has some, as BatchNorm's
  int stuck_workers = 0;         // that wait for a disk for a while, and cannot be ended

  Time shortest_delay = 0;  // of a message
  Time longest_delay = 0;
  bool duplicates = false;  // messages other than Join may arrive twice
  Time longest_fsync = 0;
  bool memory_store = false;  // a restarted daemon knows nothing
  SeveralPlan several;

  // No fault that may cost a generation: sessions break and are noticed, the daemon is killed and
  // comes back from its journal. The workers must never be restarted.
  bool benign = false;
  int faults = 0;
  Time faults_end = 0;  // all is healed then
};

Plan MakePlan(Random& random);
// The same run with several rendezvous.
Plan WithSeveral(Plan plan, Random& random);
// From a generator of its own: what states there are, and who asks for which rank, moves no fault.
void PlanStates(Random& random, Plan* plan);
// From one more: which workers are stuck moves no other fault.
void PlanStuck(Random& random, Plan* plan);

// From another one, for the same reason: whether workers stay. After PlanStates().
void PlanStays(Random& random, Plan* plan);

// How long after the last fault a job may take to end; docs/internals/simulation.md explains each
// term.
Time LivenessBound(const Plan& plan);

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_PLAN_H_
