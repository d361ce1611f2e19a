#include "tests/simulation/simulation.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/faults.h"
#include "tests/simulation/world.h"

namespace ddprun::sim {

std::optional<Bug> BugNamed(const std::string& name) {
  static const std::map<std::string, Bug> kBugs = {
      {"no_agent_id_check", Bug::kNoAgentIdCheck},
      {"lease_from_ack_arrival", Bug::kLeaseFromAckArrival},
      {"ranks_before_lease", Bug::kRanksBeforeLease},
      {"timeline_forgotten", Bug::kTimelineForgotten},
      {"nobody_looks_again", Bug::kNobodyLooksAgain},
      {"stuck_forgotten", Bug::kStuckForgotten},
      {"left_too_early", Bug::kLeftTooEarly},
      {"old_survivor_joins", Bug::kOldSurvivorJoins},
      {"two_sources", Bug::kTwoSources},
      {"half_step_as_source", Bug::kHalfStepAsSource},
      {"slot_of_another_step", Bug::kSlotOfAnotherStep},
      {"left_before_its_snapshot", Bug::kLeftBeforeItsSnapshot},
      {"ack_after_validity", Bug::kAckAfterValidity},
      {"no_hold", Bug::kNoHold},
      {"term_not_checked", Bug::kTermNotChecked},
      {"unguarded_write", Bug::kUnguardedWrite},
      {"two_leaders_from_one_revision", Bug::kTwoLeadersFromOne},
      {"stale_renewal", Bug::kStaleRenewal},
      {"delayed_duplicate", Bug::kDelayedDuplicate},
      {"vmax_forgotten", Bug::kVmaxForgotten},
      {"no_hold_after_restore", Bug::kNoHoldAfterRestore},
  };
  const auto found = kBugs.find(name);
  return found == kBugs.end() ? std::nullopt : std::optional(found->second);
}

const char* FlagOf(Rendezvous rendezvous) {
  switch (rendezvous) {
    case Rendezvous::kAlone:
      return "";
    case Rendezvous::kSeveral:
      return " --etcd 1";
    case Rendezvous::kSeveralUnlike:
      return " --etcd 2";
  }
  return "";
}

Rendezvous RendezvousOf(Bug bug) {
  if (bug == Bug::kVmaxForgotten) return Rendezvous::kSeveralUnlike;
  return bug >= Bug::kAckAfterValidity ? Rendezvous::kSeveral : Rendezvous::kAlone;
}

namespace {

std::vector<std::unique_ptr<Daemon>> MakeDaemons(World* world) {
  std::vector<std::unique_ptr<Daemon>> daemons;
  daemons.push_back(std::make_unique<Daemon>(world, 0, &world->random));
  for (int number = 1; number < world->plan.several.daemons; ++number) {
    daemons.push_back(std::make_unique<Daemon>(world, number, &world->several_random));
  }
  return daemons;
}

}  // namespace

World::World(std::uint64_t seed, Bug bug, std::string* trace, Rendezvous rendezvous)
    : random(seed),
      state_random(~seed),
      disk_random(seed ^ 0xD15C),
      stuck_random(seed ^ 0x57C4),
      stay_random(seed ^ 0x57A7),
      several_random(seed ^ 0x5E7E),
      etcd_random(seed ^ 0x4E57),
      several(rendezvous != Rendezvous::kAlone),
      plan(several ? WithSeveral(MakePlan(random), several_random) : MakePlan(random)),
      bug(bug),
      recorder(&scheduler, trace),
      network(this, 2 * plan.hosts, plan.several.daemons),
      checker(this),
      live_checker(this),
      etcd(this, plan.several.daemons),
      daemons(MakeDaemons(this)),
      training(this) {
  result.seed = seed;
  PlanEtcd(etcd_random, &plan);
  PlanStates(state_random, &plan);
  PlanStuck(stuck_random, &plan);
  PlanStays(stay_random, &plan);
  if (rendezvous == Rendezvous::kSeveralUnlike) {
    plan.several.validity = {std::chrono::seconds(1), std::chrono::seconds(12)};
    plan.several.faults = 6;
  }
}

Host& World::AddHost() {
  auto host = std::make_unique<Host>();
  host->name = absl::StrCat("n", hosts.size());
  host->clock.offset = random.Between(0, 100'000) * kSecond / 10;
  host->clock.ppm = random.Between(-30'000, 30'000);
  hosts.push_back(std::move(host));
  return *hosts.back();
}

Agent& World::StartAgent(int host, std::uint32_t requeue_number) {
  const int id = static_cast<int>(agents.size());
  agents.push_back(
      std::make_unique<Agent>(this, id, host, requeue_number, AgentId{agents.size() + 1}));
  agents.back()->Start();
  return *agents.back();
}

Agent* World::AgentOn(int host) {
  for (auto agent = agents.rbegin(); agent != agents.rend(); ++agent) {
    if ((*agent)->host() == host && (*agent)->alive()) return agent->get();
  }
  return nullptr;
}

Daemon& World::Leader() {
  for (const auto& daemon : daemons) {
    if (several && daemon->up() && daemon->contender()->term() == etcd.now().found) return *daemon;
  }
  return *daemons.front();
}

void World::AgentEndLost(const SessionPtr& session, const char* why) {
  if (!session->agent_open) return;
  agents[session->agent]->OnSessionLost(session, why);
}

void World::ServerEndLost(const SessionPtr& session) {
  if (!session->server_open) return;
  Daemon& daemon = *daemons[session->daemon];
  daemon.Post([&daemon, session] { daemon.OnEnd(session); });
}

void World::Violation(const std::string& what) {
  if (!result.violation.empty()) return;
  recorder.Line("VIOLATION: " + what);
  result.violation = what;
}

Result Simulate(std::uint64_t seed, Bug bug, std::string* trace, Rendezvous rendezvous) {
  World world(seed, bug, trace, rendezvous);
  Populate(&world);
  const Time end = world.plan.faults_end + LivenessBound(world.plan);
  const auto ended = [&] {
    if (!world.healed) return false;
    for (const auto& agent : world.agents) {
      if (agent->alive()) return false;
    }
    return true;
  };
  bool in_time = true;
  while (world.result.violation.empty() && !ended()) {
    if (!world.scheduler.RunOne(end)) {
      in_time = false;
      break;
    }
  }
  if (world.result.violation.empty()) world.checker.OnEnd(in_time);
  world.result.hash = world.recorder.hash();
  world.result.events = world.scheduler.ran();
  for (const auto& agent : world.agents) {
    if (agent->verdict()) world.result.outcome = agent->verdict()->outcome;
    if (agent->verdict() && agent->verdict()->outcome == Outcome::kSucceeded) break;
  }
  return world.result;
}

}  // namespace ddprun::sim
