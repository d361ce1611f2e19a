#include "tests/simulation/faults.h"

#include <algorithm>
#include <csignal>
#include <functional>

#include "absl/strings/str_cat.h"
#include "tests/simulation/several_faults.h"
#include "tests/simulation/world.h"

namespace ddprun::sim {
namespace {

// A live agent of a random host; nullptr: there is none.
Agent* AnyAgent(World* world) {
  const int hosts = static_cast<int>(world->hosts.size());
  const int first = world->random.Int(0, hosts - 1);
  for (int i = 0; i < hosts; ++i) {
    if (Agent* agent = world->AgentOn((first + i) % hosts)) return agent;
  }
  return nullptr;
}

int AnyHost(World* world) {
  return world->random.Int(0, static_cast<int>(world->hosts.size()) - 1);
}

void BreakSession(World* world, bool both_notice) {
  auto open = world->network.OpenSessions();
  // A session that breaks before it is open is an attempt without an answer, which may take long.
  if (world->plan.benign) std::erase_if(open, [](const auto& each) { return !each->agent_open; });
  if (open.empty()) return;
  const SessionPtr session = open[world->random.Between(0, static_cast<int>(open.size()) - 1)];
  const Time soon = world->random.Wide(1, 200) * kMillisecond;
  const Time keepalive = world->random.Between(2000, 3000) * kMillisecond;
  const int who = both_notice ? 0 : world->random.Int(0, 3);
  world->recorder.Line(absl::StrCat("fault: session s", session->id, " breaks, kind ", who));
  // Half-open: one end holds the session until its keepalive gives up; the server's may never.
  switch (who) {
    case 0:
      world->network.Break(session, soon, world->random.Wide(1, 200) * kMillisecond);
      break;
    case 1:
      world->network.Break(session, soon, keepalive);
      break;
    case 2:
      world->network.Break(session, soon, -1);
      break;
    default:
      world->network.Break(session, keepalive, soon);
  }
}

// First answers are delayed, then messages to the rendezvous are lost, then the old answers arrive.
void CutOneAfterTheOther(World* world, int host) {
  const Time lease =
      std::chrono::duration_cast<std::chrono::nanoseconds>(world->plan.spec.lease).count();
  const Time up_after = world->random.Between(1, lease / 2);
  const Time up_until = up_after + world->random.Between(lease / 2, 2 * lease);
  const Time down_until = world->random.Between(up_after, up_until);
  world->recorder.Line(absl::StrCat(
      "fault: ", world->hosts[host]->name, " is cut down for ", down_until / kMillisecond,
      " ms, and up from ", up_after / kMillisecond, " to ", up_until / kMillisecond, " ms"));
  world->network.Cut(host, kDown);
  world->scheduler.After(up_after, [world, host] {
    if (!world->healed) world->network.Cut(host, kUp);
  });
  world->scheduler.After(down_until, [world, host] { world->network.Heal(host, kDown); });
  world->scheduler.After(up_until, [world, host] { world->network.Heal(host, kUp); });
}

void CutLink(World* world) {
  const int host = AnyHost(world);
  const int kind = world->random.Int(0, 5);
  if (kind >= 4) {
    CutOneAfterTheOther(world, host);
    return;
  }
  const Time first = world->random.Wide(100, 8000) * kMillisecond;
  const Time second = kind == 3 ? world->random.Wide(100, 8000) * kMillisecond : first;
  world->recorder.Line(absl::StrCat("fault: ", world->hosts[host]->name, " is cut, kind ", kind,
                                    ", for ", first / kMillisecond, " and ", second / kMillisecond,
                                    " ms"));
  if (kind != 1) {  // up
    world->network.Cut(host, kUp);
    world->scheduler.After(first, [world, host] { world->network.Heal(host, kUp); });
  }
  if (kind != 0) {  // down
    world->network.Cut(host, kDown);
    world->scheduler.After(second, [world, host] { world->network.Heal(host, kDown); });
  }
}

void StartLater(World* world, int host, Time after) {
  world->scheduler.After(after, [world, host] {
    if (world->AgentOn(host) == nullptr && !world->healed) {
      world->hosts[host]->powered = true;
      world->StartAgent(host, world->requeue_number);
    }
  });
}

void KillAgent(World* world) {
  Agent* const agent = AnyAgent(world);
  if (agent == nullptr) return;
  const int host = agent->host();
  if (world->random.Percent(75)) {
    agent->Kill();
    if (world->random.Percent(80) && agent->requeue_number() == world->requeue_number) {
      StartLater(world, host, world->random.Wide(10, 3000) * kMillisecond);
    }
    return;
  }
  world->hosts[host]->powered = false;
  agent->PowerOff();
  if (!world->plan.shared_disk && world->state_random.Percent(50)) world->hosts[host]->disk.clear();
  if (world->random.Percent(70) && agent->requeue_number() == world->requeue_number) {
    StartLater(world, host, world->random.Wide(1000, 8000) * kMillisecond);
  }
}

void KillDaemon(World* world, bool benign) {
  Daemon& daemon = world->Leader();
  if (!daemon.up()) return;
  daemon.Kill(benign || world->random.Percent(85));
  const Time away = benign ? world->random.Wide(20, 15000) * kMillisecond
                           : world->random.Wide(20, 20000) * kMillisecond;
  world->scheduler.After(away, [&daemon] {
    if (!daemon.up()) daemon.Boot();
  });
}

void AskOperator(World* world) {
  const int kind = world->random.Int(0, 9);
  if (kind < 2) {
    world->recorder.Line(absl::StrCat("operator: stop", kind == 0 ? "" : " --save"));
    world->Leader().Ask(JobMachine::StopAsked{kind == 1, 1});
    return;
  }
  const std::string& host = world->hosts[AnyHost(world)]->name;
  if (kind == 9) {
    world->recorder.Line("operator: stacks");
    world->Leader().Ask(JobMachine::StacksAsked{1});
    return;
  }
  world->recorder.Line("operator: drain " + host);
  world->Leader().Ask(JobMachine::DrainAsked{host, 1});
}

// The whole job is started again on other machines, while the old one may still run.
void Requeue(World* world) {
  const int old_hosts = static_cast<int>(world->hosts.size());
  if (old_hosts > world->plan.hosts) return;  // once
  ++world->requeue_number;
  world->recorder.Line(absl::StrCat("fault: requeued as requeue number ", world->requeue_number));
  for (int host = 0; host < old_hosts; ++host) {
    if (world->random.Percent(50)) {
      world->network.Cut(host, kUp);
      world->network.Cut(host, kDown);
    } else if (Agent* agent = world->AgentOn(host); agent != nullptr && world->random.Percent(50)) {
      agent->Kill();
    }
  }
  for (int i = 0; i < world->plan.hosts; ++i) {
    world->AddHost();
    StartLater(world, old_hosts + i, world->random.Wide(1, 2000) * kMillisecond);
  }
}

void Inject(World* world) {
  if (world->healed) return;
  ++world->result.faults;
  Random& random = world->random;
  if (world->plan.benign) {
    if (world->several) return;  // only failovers
    if (random.Percent(40)) {
      KillDaemon(world, true);
    } else {
      BreakSession(world, true);
    }
    return;
  }
  const int kind = random.Int(0, 99);
  world->recorder.Event(kFault, kind);
  if (kind < 14) {
    BreakSession(world, false);
  } else if (kind < 38) {
    CutLink(world);
  } else if (kind < 52) {
    KillAgent(world);
  } else if (kind < 60) {
    if (Agent* agent = AnyAgent(world)) agent->Stall(random.Wide(100, 6000) * kMillisecond);
  } else if (kind < 72) {
    KillDaemon(world, false);
  } else if (kind < 76) {
    world->Leader().Stall(random.Wide(100, 5000) * kMillisecond);
  } else if (kind < 87) {
    world->training.FailOne();
  } else if (kind < 90) {
    AskOperator(world);
  } else if (kind < 95) {
    const int host = AnyHost(world);
    if (world->AgentOn(host) == nullptr) StartLater(world, host, 0);
  } else if (kind < 97) {
    if (Agent* agent = AnyAgent(world)) agent->Signal(random.Percent(70) ? SIGTERM : SIGINT);
  } else {
    Requeue(world);
  }
}

}  // namespace

void Flap(World* world, int host) {
  if (world->healed || host != world->plan.flapping_host) return;
  world->scheduler.After(world->state_random.Wide(1, 50) * kMillisecond, [world, host] {
    Agent* const agent = world->AgentOn(host);
    if (world->healed || agent == nullptr) return;
    agent->Kill();
    if (agent->requeue_number() != world->requeue_number) return;
    StartLater(world, host, world->state_random.Wide(10, 100) * kMillisecond);
  });
}

void Populate(World* world) {
  Random& random = world->random;
  const Plan& plan = world->plan;
  world->scheduler.At(random.Wide(1, 1000) * kMillisecond, [world] { world->daemons[0]->Boot(); });
  for (int i = 0; i < plan.hosts; ++i) {
    world->AddHost();
    // Most agents start together, some in the middle of the run.
    const Time at = random.Percent(80) || plan.benign ? random.Wide(1, 2000) * kMillisecond
                                                      : random.Between(0, plan.faults_end);
    world->scheduler.At(at, [world, i] {
      if (world->AgentOn(i) == nullptr) world->StartAgent(i, world->requeue_number);
    });
  }
  for (int i = 0; i < plan.faults; ++i) {
    world->scheduler.At(random.Between(kSecond / 2, plan.faults_end - 1),
                        [world] { Inject(world); });
  }
  if (world->several) PopulateSeveral(world);
  for (int i = 0; i < plan.stuck_workers; ++i) {
    const Time at = world->stuck_random.Between(kSecond, plan.faults_end - 1);
    const Time longest = plan.faults_end - at;
    const Time duration = std::min(longest, world->stuck_random.Wide(2000, 16'000) * kMillisecond);
    world->scheduler.At(at, [world, duration] { world->training.StickOne(duration); });
  }
  world->scheduler.At(plan.faults_end, [world] {
    world->recorder.Line("everything is healed");
    world->healed = true;
    world->network.HealAll();
    world->etcd.HealAll();
    for (const auto& daemon : world->daemons) {
      if (!daemon->up()) daemon->Boot();
    }
  });
}

}  // namespace ddprun::sim
