#include "tests/simulation/checker.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/root_cause.h"
#include "tests/simulation/world.h"

namespace ddprun::sim {
namespace {

// A stuck worker that was killed: it ends as soon as it is not stuck.
bool HasBeenKilled(const Worker& worker) {
  return worker.stuck && worker.ends_as && worker.ends_as->signal == SIGKILL;
}

std::string Text(const Worker& worker) {
  return absl::StrCat("worker ", worker.id, " of ", worker.agent->Name(), ", requeue number ",
                      worker.group->requeue_number, " generation ", worker.group->generation.value,
                      " rank ", worker.rank.value);
}

}  // namespace

bool Checker::Excludes(int older, int newer) const {
  return older == newer || returners_.contains(newer);
}

void Checker::OnWorkerStarted(const Worker& started) {
  for (const int id : world_->training.alive()) {
    const Worker& other = world_->training.worker(id);
    if (other.id == started.id) continue;
    if (HasBeenKilled(other)) {  // it makes no steps, but still holds its resources
      if (other.agent != started.agent) continue;
      world_->Violation(absl::StrCat(
          Text(started), " starts on a node where SIGKILL has not ended ", Text(other)));
    }
    if (other.group == started.group) {
      if (other.rank == started.rank) {
        world_->Violation(
            absl::StrCat("one rank, two workers: ", Text(started), " starts beside ", Text(other)));
      }
      continue;
    }
    if (!Excludes(other.group->life, started.group->life)) continue;
    world_->Violation(absl::StrCat("two generations run at once: ", Text(started),
                                   " starts beside ", Text(other)));
  }
}

void Checker::CheckNobodyRuns(const JobMachine& machine, int life) {
  for (const int id : world_->training.alive()) {
    const Worker& worker = world_->training.worker(id);
    if (HasBeenKilled(worker) || !Excludes(worker.group->life, life)) continue;
    world_->Violation(absl::StrCat("ranks are given away for generation ",
                                   machine.generation().value, " while there is still ",
                                   Text(worker)));
  }
}

void Checker::OnEvent(const JobMachine& machine, int life, const JobEvent& event) {
  const std::string generation = absl::StrCat("requeue number ", machine.requeue_number(),
                                              " generation ", event.generation.value);
  switch (event.kind) {
    case JobEvent::Kind::kFormed:
      CheckNobodyRuns(machine, life);
      failed_ = false;
      break;
    case JobEvent::Kind::kStarted:
      if (planned_)
        resumed_.push_back({machine.requeue_number(), event.generation, planned_->step()});
      break;
    case JobEvent::Kind::kFailed:
      failed_ = true;
      CheckLosses(*event.cause);
      spends_ = !IsMembershipChange(*event.cause) && !IsTakenPort(event.cause->failure.exit);
      break;
    case JobEvent::Kind::kCheckpointFailed:
    case JobEvent::Kind::kFinished:
      CheckFailures(machine);
      break;
    case JobEvent::Kind::kRestarted: {
      const int expected = restarts_ + (failed_ && spends_ ? 1 : 0);
      if (event.restarts != expected) {
        world_->Violation(absl::StrCat(generation, " ended and ", event.restarts,
                                       " restarts are used, not ", expected));
      }
      restarts_ = event.restarts;
      failed_ = false;
      break;
    }
    case JobEvent::Kind::kStuck:
      ++world_->result.left_out;
      break;
    case JobEvent::Kind::kSuperseded:
      restarts_ = 0;
      failed_ = false;
      break;
    default:
      break;
  }
  if (machine.restarts_used() > world_->plan.spec.max_restarts) {
    world_->Violation(absl::StrCat("budget exceeded: ", machine.restarts_used(), " restarts of ",
                                   world_->plan.spec.max_restarts));
  }
}

// The limit follows from the delays of LateAdmission: two losses at once, then after 1, 2, 4, ...
// seconds. One loss is added: an agent that joined before its predecessor was lost has the delay of
// the time before that loss.
void Checker::CheckLosses(const RootCause& cause) {
  constexpr Time kWindow = 16 * kSecond;
  constexpr std::size_t kMost = 7;  // 0 + 0 + 1 + 2 + 4 + 8 s, and one: the faults end after 16
  if (cause.kind != RootCause::Kind::kNodeLost) return;
  std::vector<Time>& losses = losses_[cause.failure.host];
  const Time now = world_->scheduler.now();
  std::erase_if(losses, [&](Time at) { return now - at > kWindow; });
  losses.push_back(now);
  if (losses.size() > kMost) {
    world_->Violation(absl::StrCat(cause.failure.host, " has ended ", losses.size(),
                                   " generations within ", kWindow / kSecond, " s"));
  }
}

void Checker::CheckFailures(const JobMachine& machine) {
  std::int64_t failed = 0;
  for (const auto& agent : world_->agents) {
    if (agent->requeue_number() == machine.requeue_number()) failed += agent->failed_checkpoints();
  }
  const std::int64_t counted = machine.Record().failed_checkpoints.total.count;
  const bool all = world_->plan.benign && machine.state() == JobState::kSucceeded;
  if (counted > failed || (all && counted < failed)) {
    world_->Violation(
        absl::StrCat(counted, " failed checkpoints are counted, and there were ", failed));
  }
  if (machine.finished()) world_->result.failed_checkpoints += static_cast<int>(counted);
}

void Checker::OnJobBegins() {
  losses_.clear();
  restarts_ = 0;
  failed_ = false;
}

// The workers of a recorded generation may have been started.
void Checker::OnRestored(const JobMachine& machine, const JobRecord& record) {
  planned_ = record.restore;
  if (planned_) resumed_.push_back({record.requeue_number, record.generation, planned_->step()});
  restarts_ = machine.restarts_used();
  failed_ = false;
  losses_.clear();  // the rendezvous that counted them is gone
}

// Ranks of nodes and of workers are consecutive from 0.
void Checker::OnRecord(int life, const JobRecord& record) {
  if (record.finished || record.generation.value < 0) {
    if (record.generation.value < 0) restarts_ = 0;
    return;
  }
  planned_ = record.restore;
  // Less is known of a job that was begun again or whose rendezvous forgets.
  if (life == 1 && !world_->plan.forgets() && record.generation > checked_) {
    checked_ = record.generation;
    CheckPlan(record);
  }
  int node = 0;
  int rank = 0;
  std::set<std::uint64_t> agent_ids;
  for (const NodeRecord& member : record.members) {
    if (member.rank.value != node++ || member.first_rank.value != rank) {
      // A lost node leaves a gap in the ranks until the next generation is formed.
      if (member.rank.value < node - 1) {
        world_->Violation(absl::StrCat("node rank ", member.rank.value, " twice in generation ",
                                       record.generation.value, " of life ", life));
      }
      node = member.rank.value + 1;
    }
    rank = member.first_rank.value + member.spec.worker_count;
    if (!agent_ids.insert(member.agent_id.value).second) {
      world_->Violation(
          absl::StrCat("one agent has two ranks in generation ", record.generation.value));
    }
  }
}

void Checker::OnNote(const std::string& text) {
  if (text.starts_with("going on without the states of")) without_a_disk_ = true;
}

void Checker::CheckDisk(const NodeRecord& member, const RestorePlan& plan,
                        const std::string& where) {
  const Agent& agent = *world_->agents[member.agent_id.value - 1];
  for (const SavedFile& file : world_->Disk(agent.host())) {
    if (file.state.step <= plan.step() || IsDead(file.state)) continue;
    world_->Violation(absl::StrCat("a durable state is lost: ", where, ", and step ",
                                   file.state.step, " of generation ", file.state.generation.value,
                                   " is on the disk of ", agent.Name()));
  }
}

bool Checker::IsDead(const SavedState& state) const {
  return std::any_of(resumed_.begin(), resumed_.end(), [&](const ResumePoint& point) {
    return std::tie(point.requeue_number, point.generation) >
               std::tie(state.requeue_number, state.generation) &&
           point.step < state.step;
  });
}

void Checker::CheckPlan(const JobRecord& record) {
  if (!world_->plan.states) return;
  if (world_->bug == Bug::kNoAgentIdCheck) return;  // the bug mixes up members
  const std::string where = absl::StrCat("requeue number ", record.requeue_number, " generation ",
                                         record.generation.value, " begins with ",
                                         record.restore ? Describe(*record.restore) : "no plan");
  const auto& plan = record.restore;
  const bool all_disks = !std::exchange(without_a_disk_, false);
  for (const NodeRecord& member : record.members) {
    const Agent& agent = *world_->agents[member.agent_id.value - 1];
    const auto kept = world_->live_checker.TakeKept(agent.id());
    if (!agent.alive()) continue;
    if (kept && !IsDead(*kept) && (!plan || kept->step > plan->step())) {
      world_->Violation(absl::StrCat("a finished step is lost: ", where, ", and workers of ",
                                     agent.Name(), " had finished step ", kept->step,
                                     " of generation ", kept->generation.value));
    }
    if (plan && all_disks) CheckDisk(member, *plan, where);
    for (const SavedState& state : agent.holds()) {
      if (IsDead(state)) {
        ++world_->result.dead_states;
        continue;
      }
      if (!plan) {
        world_->Violation(absl::StrCat(where, ", and ", agent.Name(), " holds one"));
      } else if (state.step > plan->step()) {
        world_->Violation(absl::StrCat("training goes back: ", where, ", and ", agent.Name(),
                                       " holds step ", state.step));
      }
    }
    if (!plan || !plan->state || member.first_rank != plan->source) continue;
    ++world_->result.restores;
    if (member.rank.value != 0) ++world_->result.restores_elsewhere;
    const std::vector<SavedState> states = agent.holds();
    const bool held = std::any_of(states.begin(), states.end(), [&](const SavedState& state) {
      return state.step == plan->state->step && state.tier == plan->state->tier && !IsDead(state);
    });
    if (!held) {
      world_->Violation(absl::StrCat(where,
                                     ", and its source does not hold that, or it is of a "
                                     "dead timeline"));
    }
  }
}

void Checker::OnAssigned(int life, const Header& header, const Assignment& assignment) {
  const Key key{life, header.requeue_number, header.generation.value};
  Formed& formed = formed_[key];
  const std::string where =
      absl::StrCat("requeue number ", header.requeue_number, " generation ",
                   header.generation.value, " node ", assignment.node_rank.value);
  const auto [place, fresh] = formed.by_node.emplace(assignment.node_rank.value, assignment);
  if (!fresh && place->second != assignment) {
    world_->Violation(absl::StrCat("a generation's number is used twice: ", where));
  }
  const auto [owner, first] = members_.emplace(
      Key{life * 1000 + assignment.node_rank.value, header.requeue_number, header.generation.value},
      header.agent_id.value);
  if (!first && owner->second != header.agent_id.value && world_->bug != Bug::kNoAgentIdCheck) {
    world_->Violation(absl::StrCat("a rank is given to two agents: ", where));
  }
  // If all nodes are known, the ranks are exactly 0..W−1.
  int rank = 0;
  int node = 0;
  for (const auto& [number, known] : formed.by_node) {
    if (known.world_size != assignment.world_size || known.node_count != assignment.node_count ||
        known.master_addr != assignment.master_addr ||
        known.master_port != assignment.master_port || known.restore != assignment.restore) {
      world_->Violation(absl::StrCat("nodes of one generation are told different things: ", where));
    }
    if (number != node++ || known.first_rank.value != rank) {
      if (static_cast<int>(formed.by_node.size()) == assignment.node_count) {
        world_->Violation(absl::StrCat("ranks are not 0..W-1: ", where));
      }
      return;
    }
    rank += world_->plan.workers_per_host;
  }
  if (node == assignment.node_count && rank != assignment.world_size) {
    world_->Violation(
        absl::StrCat("ranks are not 0..W-1: ", where, ", world ", assignment.world_size));
  }
  // The number of restarts never decreases, whatever the daemon forgets.
  auto& [generation, restarts] = visible_[{life, header.requeue_number}];
  if (header.generation.value > generation && assignment.restart_count < restarts) {
    world_->Violation(absl::StrCat("restarts are forgotten: ", where, " has ",
                                   assignment.restart_count, ", and there were ", restarts));
  }
  const auto run = runs_.try_emplace({life, header.requeue_number}, assignment.run_id).first;
  if (run->second != assignment.run_id || assignment.run_id == RunId{}) {
    world_->Violation(absl::StrCat("a job has two runs, or none: ", where));
  }
  generation = std::max(generation, header.generation.value);
  restarts = std::max(restarts, assignment.restart_count);
}

void Checker::OnEnd(bool in_time) {
  const Daemon& leader = world_->Leader();
  const JobMachine* machine = leader.machine();
  std::optional<Outcome> outcome;
  for (const auto& agent : world_->agents) {
    if (agent->alive()) {
      world_->Violation(absl::StrCat(
          "no end within the bound: ", agent->Name(), " is ", ToString(agent->state()),
          agent->state() == SupervisorState::kJoining ? "" : "!", ", the job is ",
          machine == nullptr ? "unknown" : ToString(machine->state()), in_time ? "" : " (late)"));
      return;
    }
    const std::optional<Verdict>& verdict = agent->verdict();
    if (!verdict || machine == nullptr || !machine->finished()) continue;
    if (agent->verdict_life() != leader.life() ||
        agent->requeue_number() != machine->requeue_number()) {
      continue;
    }
    // Agents that were stopped, dismissed or refused have a verdict of their own.
    if (verdict->outcome != Outcome::kSucceeded && verdict->outcome != Outcome::kFailed) continue;
    if (!outcome) outcome = verdict->outcome;
    if (outcome != verdict->outcome) {
      world_->Violation(absl::StrCat(agent->Name(), " ended with ", ToString(verdict->outcome),
                                     ", another one with ", ToString(*outcome)));
    }
  }
  if (machine != nullptr && machine->finished() && machine->state() == JobState::kSucceeded &&
      !world_->training.complete() && world_->plan.checkpoint_every > 0) {
    world_->Violation("the job succeeded without its last step");
  }
  if (world_->plan.benign && world_->result.generations > 1) {
    world_->Violation(absl::StrCat("nothing happened that needs a restart, and there were ",
                                   world_->result.generations, " generations"));
  }
}

}  // namespace ddprun::sim
