#include "tests/simulation/plan.h"

#include <algorithm>

#include "rendezvous/leadership/takeover_pacing.h"
#include "rendezvous/machine/nodes/quarantine.h"

namespace ddprun::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

Plan MakePlan(Random& random) {
  Plan plan;
  plan.benign = random.Percent(12);
  plan.hosts = random.Percent(60) ? random.Int(2, 3) : random.Int(2, 8);
  plan.workers_per_host = random.Percent(70) ? 1 : random.Int(1, 3);
  JobSpec& spec = plan.spec;
  spec.min_nodes = random.Int(1, plan.hosts);
  spec.max_nodes = random.Int(spec.min_nodes, plan.hosts);
  if (plan.benign) spec.min_nodes = spec.max_nodes = plan.hosts;  // growth means a restart
  spec.max_restarts = random.Int(0, 6);
  spec.join_timeout = seconds(15);
  spec.last_call = milliseconds(random.Int(0, 2) * 500);
  if (random.Percent(25) && !plan.benign) {
    spec.heartbeat = milliseconds(500);
    spec.lease = milliseconds(1500);
  }
  spec.save_timeout = seconds(4);
  plan.machine.forming_timeout = seconds(5);
  plan.stop_grace = seconds(2);
  plan.kill_grace = seconds(2);
  plan.daemon_grace = seconds(60);
  plan.connect_timeout = seconds(60);

  plan.total_steps = random.Int(5, 40);
  plan.step_time = random.Between(100, 600) * kMillisecond;
  plan.workers_speak = random.Percent(80);
  plan.checkpoint_every = plan.workers_speak && random.Percent(75) ? random.Int(1, 8) : 0;

  plan.shortest_delay = random.Between(50, 2000) * kMillisecond / 1000;
  plan.longest_delay =
      random.Percent(80) ? random.Wide(1, 40) * kMillisecond : random.Wide(40, 600) * kMillisecond;
  if (plan.benign) plan.longest_delay = std::min(plan.longest_delay, 100 * kMillisecond);
  plan.longest_delay = std::max(plan.longest_delay, plan.shortest_delay);
  plan.duplicates = !plan.benign && random.Percent(25);
  plan.longest_fsync = random.Wide(1, 400) * kMillisecond;
  plan.memory_store = !plan.benign && random.Percent(15);

  plan.faults = random.Percent(5) ? 0 : random.Int(1, 9);
  plan.faults_end = random.Between(3, 16) * kSecond;
  return plan;
}

// For how long the first leader forms no group, at most.
Time HoldOf(const Plan& plan) {
  const auto& validity = plan.several.validity;
  return std::chrono::nanoseconds(std::max(validity[0], validity[1]) * 11 / 10).count();
}

Plan WithSeveral(Plan plan, Random& random) {
  plan.memory_store = false;
  plan.spec.heartbeat = milliseconds(500);
  plan.spec.lease = seconds(3);
  plan.several.daemons = random.Int(2, 3);
  plan.several.validity = {seconds(random.Int(1, 5)), seconds(random.Int(1, 5))};
  if (random.Percent(50)) plan.several.validity = {seconds(1), seconds(random.Int(5, 12))};
  plan.several.faults = random.Int(1, 6);
  // Long enough for successive failovers, for the hold of the first leader where its validity
  // matters, and for the work that waits meanwhile.
  plan.faults_end = random.Between(12, 20) * kSecond + (plan.benign ? 0 : HoldOf(plan));
  plan.total_steps = random.Int(20, 40);
  plan.step_time = random.Between(300, 800) * kMillisecond;
  return plan;
}

void PlanEtcd(Random& random, Plan* plan) {
  if (plan->several.daemons == 1) return;
  auto& validity = plan->several.validity;
  plan->several.restores = !plan->benign && random.Percent(15);
  // Nobody can know the validity of a leader that a restored etcd has forgotten (docs/ha.md).
  if (plan->several.restores) validity[0] = validity[1] = std::max(validity[0], validity[1]);
  plan->several.fills = random.Percent(plan->benign ? 30 : 10);
}

void PlanStates(Random& random, Plan* plan) {
  plan->states = plan->checkpoint_every > 0 && random.Percent(85);
  plan->snapshot_every = plan->states && random.Percent(75) ? random.Int(1, 2) : 0;
  plan->shared_disk = random.Percent(25);
  if (!plan->benign && plan->hosts > 1 && random.Percent(6)) {
    plan->flapping_host = random.Int(0, plan->hosts - 1);
    plan->faults_end = 16 * kSecond;
    plan->total_steps = 100;  // the job must not end before the faults
  }
  plan->ranked = plan->spec.max_nodes == plan->hosts && random.Percent(40);
}

void PlanStuck(Random& random, Plan* plan) {
  if (!plan->benign && random.Percent(12)) plan->stuck_workers = random.Int(1, 3);
}

void PlanStays(Random& random, Plan* plan) {
  plan->stays = plan->states && random.Percent(60);
  plan->tells_optimizer = random.Percent(75);
  plan->buffers = random.Percent(40);
}

Time LivenessBound(const Plan& plan) {
  const auto time = [](Duration duration) -> Time {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  };
  const Time notice = 11 * kSecond;  // a silent attempt to connect, and the backoff
  const Time end_of_generation = time(plan.spec.lease + plan.machine.victim_grace +
                                      plan.spec.save_timeout + plan.stop_grace + plan.kill_grace);
  const Time forming = time(plan.spec.last_call + plan.machine.forming_timeout);
  const Time training = plan.step_time * (plan.total_steps + 2);
  // Earlier events may still end two generations: the last failure, and nodes that joined after it.
  const Time all = notice + 2 * (end_of_generation + forming + training) +
                   time(plan.spec.lease + plan.spec.join_timeout) + training + forming +
                   time(LateAdmission::kMaxDelay) + 5 * kSecond;  // the pauses before restarts
  // Two contenders settle who leads; the leader takes over, and waits for the other one's end.
  const Time several = plan.several.daemons == 1
                           ? 0
                           : time(TakeoverPacing::kMaxWait) +
                                 2 * time(*std::max_element(plan.several.validity.begin(),
                                                            plan.several.validity.end())) +
                                 5 * kSecond;
  const Time restored =
      plan.several.restores ? several + 2 * time(plan.spec.lease) : 0;  // the first leader waits
  const Time total = all + several + restored;
  return total + total / 25;  // clocks are slow by 3 % at most
}

}  // namespace ddprun::sim
