#include "tests/simulation/several_faults.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/simulation/world.h"

namespace ddprun::sim {
namespace {

constexpr Time kBetweenFailovers = 6 * kSecond;

int NumberOf(World* world, const Daemon& daemon) {
  for (std::size_t number = 0; number < world->daemons.size(); ++number) {
    if (world->daemons[number].get() == &daemon) return static_cast<int>(number);
  }
  return 0;
}

// Usually the leader.
int AnyDaemon(World* world) {
  if (world->several_random.Percent(75)) return NumberOf(world, world->Leader());
  return world->several_random.Int(0, world->plan.several.daemons - 1);
}

void BootLater(World* world, int number, Time after) {
  world->scheduler.After(after, [world, number] {
    if (!world->daemons[number]->up()) world->daemons[number]->Boot();
  });
}

void Kill(World* world, int number) {
  Daemon& daemon = *world->daemons[number];
  if (!daemon.up()) return;
  const bool refuses = world->several_random.Percent(60);
  daemon.Kill(refuses);
  // A machine that has lost power does not boot within a second.
  const Time away =
      refuses ? world->several_random.Wide(20, 6000) : world->several_random.Between(3000, 6000);
  BootLater(world, number, away * kMillisecond);
}

void HandOver(World* world, int number) {
  Daemon& daemon = *world->daemons[number];
  if (!daemon.up()) return;
  world->recorder.Line(absl::StrCat("fault: r", number, " is asked to end"));
  daemon.Post([&daemon] { daemon.contender()->EndAsked(); });
  BootLater(world, number, world->several_random.Between(1500, 4000) * kMillisecond);
}

void CutFromEtcd(World* world, int number, Time duration) {
  const int way = world->several_random.Int(0, 2);
  world->recorder.Line(absl::StrCat("fault: r", number, " is cut from etcd, way ", way, ", for ",
                                    duration / kMillisecond, " ms"));
  for (const Direction direction : {kUp, kDown}) {
    if (way == (direction == kUp ? 1 : 2)) continue;
    world->etcd.Cut(number, direction);
    world->scheduler.After(duration,
                           [world, number, direction] { world->etcd.Heal(number, direction); });
  }
}

void CutLink(World* world, int link, Time duration) {
  const int way = world->several_random.Int(0, 2);
  for (const Direction direction : {kUp, kDown}) {
    if (way == (direction == kUp ? 1 : 2)) continue;
    world->network.Cut(link, direction);
    world->scheduler.After(duration,
                           [world, link, direction] { world->network.Heal(link, direction); });
  }
}

void CutFromAgents(World* world, int number, Time duration) {
  world->recorder.Line(absl::StrCat("fault: r", number, " is cut from all others, for ",
                                    duration / kMillisecond, " ms"));
  CutLink(world, world->network.LinkOfDaemon(number), duration);
}

void CutBetween(World* world, int from, int to, Time duration) {
  world->network.CutBetween(from, to, true);
  world->scheduler.After(duration,
                         [world, from, to] { world->network.CutBetween(from, to, false); });
}

// Cuts a rendezvous from another one, in one or both directions.
void CutFromPeer(World* world, int number, Time duration) {
  const int daemons = world->plan.several.daemons;
  const int other = (number + world->several_random.Int(1, daemons - 1)) % daemons;
  world->recorder.Line(absl::StrCat("fault: r", number, " and r", other, " are cut, for ",
                                    duration / kMillisecond, " ms"));
  CutBetween(world, number, other, duration);
  if (world->several_random.Percent(70)) CutBetween(world, other, number, duration);
}

void CutFromPeers(World* world, int number, Time duration) {
  world->recorder.Line(absl::StrCat("fault: r", number, " is cut from the others, for ",
                                    duration / kMillisecond, " ms"));
  for (int other = 0; other < world->plan.several.daemons; ++other) {
    CutBetween(world, number, other, duration);
    CutBetween(world, other, number, duration);
  }
}

void CutPair(World* world, int host, int number, Time duration) {
  const int link = world->network.LinkOfPair(host, number);
  for (const Direction direction : {kUp, kDown}) {
    world->network.Cut(link, direction);
    world->scheduler.After(duration,
                           [world, link, direction] { world->network.Heal(link, direction); });
  }
}

// Some agents reach only the leader, the others only the standbys. The leader lives, with or
// without etcd. The next leader is sometimes lost soon.
void Split(World* world, int leader, Time duration) {
  Random& random = world->several_random;
  world->recorder.Line(absl::StrCat("fault: r", leader,
                                    " and some agents are cut from the rest, for ",
                                    duration / kMillisecond, " ms"));
  for (int host = 0; host < static_cast<int>(world->hosts.size()); ++host) {
    const bool stays = random.Percent(50);
    for (int number = 0; number < world->plan.several.daemons; ++number) {
      if (stays != (number == leader)) CutPair(world, host, number, duration);
    }
  }
  CutFromPeers(world, leader, duration);
  if (random.Percent(75)) CutFromEtcd(world, leader, duration);
  if (random.Percent(20)) HandOver(world, leader);
  if (!random.Percent(50)) return;
  const bool asked = random.Percent(50);
  world->scheduler.After(random.Between(700, 3000) * kMillisecond, [world, leader, asked] {
    const int next = NumberOf(world, world->Leader());
    if (next == leader || world->healed) return;
    if (asked) {
      HandOver(world, next);
    } else {
      Kill(world, next);
    }
  });
}

void LoseQuorum(World* world, Time duration) {
  world->recorder.Line(
      absl::StrCat("fault: etcd has no quorum, for ", duration / kMillisecond, " ms"));
  world->etcd.SetQuorum(false);
  world->scheduler.After(duration, [world] { world->etcd.SetQuorum(true); });
}

void Inject(World* world) {
  if (world->healed) return;
  ++world->result.faults;
  Random& random = world->several_random;
  const Time duration = random.Wide(200, 12'000) * kMillisecond;
  const int number = AnyDaemon(world);
  switch (random.Int(0, 11)) {
    case 0:
      return Kill(world, number);
    case 1:
      return world->daemons[number]->Stall(duration);
    case 2:
      return HandOver(world, number);
    case 3:
      return CutFromEtcd(world, number, duration);
    case 4:
      return CutFromAgents(world, number, duration);
    case 5:
      CutFromEtcd(world, number, duration);
      return CutFromAgents(world, number, duration);
    case 6:
      return CutFromPeer(world, number, duration);
    case 7:
      return LoseQuorum(world, duration);
    case 8:
      CutFromEtcd(world, number, duration);
      return CutFromPeers(world, number, duration);
    default:
      Split(world, NumberOf(world, world->Leader()), random.Between(2000, 12'000) * kMillisecond);
  }
}

// Only the leader is lost: no worker may notice.
void FailOver(World* world) {
  if (world->healed) return;
  ++world->result.faults;
  Random& random = world->several_random;
  Daemon& leader = world->Leader();
  const int number = NumberOf(world, leader);
  const Time duration = random.Wide(100, 5000) * kMillisecond;
  switch (random.Int(0, 5)) {
    case 0:
      return Kill(world, number);
    case 1:
      return leader.Stall(duration);
    case 2:
      return HandOver(world, number);
    case 3:
      return CutFromEtcd(world, number, duration);
    case 4:
      CutFromEtcd(world, number, duration);
      return CutFromPeers(world, number, duration);
    default:
      return CutFromAgents(world, number, duration);
  }
}

// At a time of a run in which other faults happen, too. In half of the runs the leader of the old
// cluster is cut from it at that time, and some agents reach nobody else.
void PlanRestore(World* world) {
  Random& random = world->etcd_random;
  const Time end = world->plan.faults_end;
  world->scheduler.At(random.Between(kSecond, end / 2), [world] { world->etcd.TakeSnapshot(); });
  const bool emptied = random.Percent(50);
  const bool split = random.Percent(50);
  world->scheduler.At(random.Between(end / 2, end - 1), [world, emptied, split] {
    ++world->result.faults;
    if (split) {
      const Time duration = world->etcd_random.Between(2000, 12'000) * kMillisecond;
      Split(world, NumberOf(world, world->Leader()), duration);
    }
    world->etcd.Restore(emptied);
  });
}

void Fill(World* world, Time from, Time to) {
  world->scheduler.At(from, [world] {
    if (world->healed) return;
    ++world->result.faults;
    world->recorder.Line("fault: etcd is full");
    world->etcd.SetFull(true);
  });
  world->scheduler.At(to, [world] { world->etcd.SetFull(false); });
}

// In a benign run nothing else happens after the first failover, and no leader may stop
// acknowledging, though it cannot write that the validity of its predecessor is over.
void PlanFull(World* world) {
  Random& random = world->etcd_random;
  const Time end = world->plan.faults_end;
  if (world->plan.benign) return Fill(world, 4 * kSecond + kBetweenFailovers, end);
  const Time from = random.Between(kSecond, end - kSecond);
  Fill(world, from, from + random.Wide(200, 12'000) * kMillisecond);
}

}  // namespace

void PopulateSeveral(World* world) {
  Random& random = world->several_random;
  const Plan& plan = world->plan;
  if (plan.several.restores) PlanRestore(world);
  if (plan.several.fills) PlanFull(world);
  for (int number = 1; number < plan.several.daemons; ++number) {
    world->scheduler.At(random.Wide(1, 1000) * kMillisecond,
                        [world, number] { world->daemons[number]->Boot(); });
  }
  if (plan.benign) {
    // The last fault ends when all is healed: a machine without power stays down until then.
    Time last = plan.faults_end - kBetweenFailovers - kSecond;
    if (plan.several.fills) last = std::min(last, 4 * kSecond + 1);
    for (Time at = 4 * kSecond; at < last; at += kBetweenFailovers) {
      world->scheduler.At(at + random.Between(0, kSecond), [world] { FailOver(world); });
    }
    return;
  }
  for (int i = 0; i < plan.several.faults; ++i) {
    world->scheduler.At(random.Between(kSecond / 2, plan.faults_end - 1),
                        [world] { Inject(world); });
  }
}

}  // namespace ddprun::sim
