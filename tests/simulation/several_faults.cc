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

// Most often the leader.
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
  daemon.Kill(world->several_random.Percent(60));
  BootLater(world, number, world->several_random.Wide(20, 6000) * kMillisecond);
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

// Some agents reach some rendezvous: they follow different leaders.
void CutPairs(World* world, Time duration) {
  world->recorder.Line(absl::StrCat("fault: pairs are cut, for ", duration / kMillisecond, " ms"));
  for (int host = 0; host < static_cast<int>(world->hosts.size()); ++host) {
    const int reaches = world->several_random.Int(0, world->plan.several.daemons - 1);
    for (int number = 0; number < world->plan.several.daemons; ++number) {
      if (number == reaches || world->several_random.Percent(20)) continue;
      const int link = world->network.LinkOfPair(host, number);
      for (const Direction direction : {kUp, kDown}) {
        world->network.Cut(link, direction);
        world->scheduler.After(duration,
                               [world, link, direction] { world->network.Heal(link, direction); });
      }
    }
  }
}

void CutBetween(World* world, Time duration) {
  const int daemons = world->plan.several.daemons;
  const int from = world->several_random.Int(0, daemons - 1);
  const int to = (from + world->several_random.Int(1, daemons - 1)) % daemons;
  const bool both = world->several_random.Percent(70);
  world->recorder.Line(absl::StrCat("fault: r", from, " is not heard by r", to, ", for ",
                                    duration / kMillisecond, " ms"));
  const auto set = [world, from, to, both](bool cut) {
    world->network.CutBetween(from, to, cut);
    if (both) world->network.CutBetween(to, from, cut);
  };
  set(true);
  world->scheduler.After(duration, [set] { set(false); });
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
  switch (random.Int(0, 9)) {
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
      return CutBetween(world, duration);
    case 7:
      return LoseQuorum(world, duration);
    default:
      // The leader lives, and those who follow it do not hear of the next one.
      CutPairs(world, duration);
      CutBetween(world, duration);
      if (random.Percent(50)) CutFromEtcd(world, number, duration);
      if (random.Percent(30)) HandOver(world, number);
  }
}

// The leader is lost, and nothing else: nobody may notice.
void FailOver(World* world) {
  if (world->healed) return;
  ++world->result.faults;
  Random& random = world->several_random;
  Daemon& leader = world->Leader();
  const int number = NumberOf(world, leader);
  switch (random.Int(0, 4)) {
    case 0:
      return Kill(world, number);
    case 1:
      return leader.Stall(random.Wide(100, 5000) * kMillisecond);
    case 2:
      return HandOver(world, number);
    case 3:
      return CutFromEtcd(world, number, random.Wide(100, 5000) * kMillisecond);
    default:
      return CutFromAgents(world, number, random.Wide(100, 5000) * kMillisecond);
  }
}

}  // namespace

void PopulateSeveral(World* world) {
  Random& random = world->several_random;
  const Plan& plan = world->plan;
  for (int number = 1; number < plan.several.daemons; ++number) {
    world->scheduler.At(random.Wide(1, 1000) * kMillisecond,
                        [world, number] { world->daemons[number]->Boot(); });
  }
  if (plan.benign) {
    for (Time at = 4 * kSecond; at < plan.faults_end; at += kBetweenFailovers) {
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
