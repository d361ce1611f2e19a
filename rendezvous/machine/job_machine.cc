// JobMachine: messages of agents, and agents that leave.
#include "rendezvous/machine/job_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/words.h"
#include "rendezvous/machine/nodes/admission.h"
#include "worker/contract/job_name.h"
#include "worker/contract/overloaded.h"

namespace ddprun {
namespace {

// Messages that count in any generation.
bool IsAboutTheAgent(const AgentMessage& message) {
  return std::holds_alternative<Heartbeat>(message) || std::holds_alternative<Leave>(message) ||
         std::holds_alternative<Preempted>(message) ||
         std::holds_alternative<HeldStates>(message) ||
         std::holds_alternative<StandbysReady>(message);
}

}  // namespace

JobMachine::JobMachine(std::string job, std::uint32_t requeue_number, JobMachineOptions options)
    : job_(std::move(job)), options_(options), life_(requeue_number) {}

std::vector<JobMachine::Action> JobMachine::Step(const Event& event, TimePoint now) {
  now_ = now;
  std::visit(Overloaded{
                 [&](const Received& received) { OnReceived(received); },
                 [&](const StreamBroken& broken) { OnStreamBroken(broken); },
                 [&](const AgentGone& gone) { OnAgentGone(gone); },
                 [&](const StopAsked& asked) { OnStopAsked(asked); },
                 [&](const DrainAsked& asked) { OnDrainAsked(asked); },
                 [&](const StacksAsked& asked) { OnStacksAsked(asked); },
                 [&](const StacksMerged& merged) { stacks_.OnMerged(merged); },
                 [&](const StacksJudged& judged) { OnStacksJudged(judged); },
                 [&](const Tick&) { OnTick(); },
             },
             event);
  if (stacks_.complete()) ConcludeStacks();
  Advance();
  survey_.AskToLookAgain(View());
  return out_.Take();
}

// True only for a Join that cannot belong to the finished job: the agent was not in a generation,
// or the requeue number is higher.
bool JobMachine::BeginsAnother(const Header& header, const Join& join) {
  if (!finished_ || header.requeue_number < life_.requeue_number || Knows(header.agent_id))
    return false;
  // A spare that was cut off must not restart a job that finished without it. The same holds for a
  // late agent of a job that Slurm started only once.
  const bool once = join.job.all_nodes > 0;
  const bool was_here = once || join.returning || header.generation.value >= 0;
  return !was_here || header.requeue_number > life_.requeue_number;
}

// ---- messages ----

void JobMachine::OnReceived(const Received& received) {
  const Header& header = received.header;
  const auto* const join = std::get_if<Join>(&received.message);
  if (header.job != job_) {
    out_.Reply(header,
               Refused{absl::StrCat("this is ", NameOfJob(job_), ", not ", NameOfJob(header.job))});
    return;
  }
  if (header.requeue_number < life_.requeue_number) {
    out_.Reply(header,
               Refused{absl::StrCat(
                   "requeue number ", header.requeue_number, " of ", NameOfJob(job_),
                   " is over: it was started again, as requeue number ", life_.requeue_number)});
    return;
  }
  if (finished_) {
    OnReceivedAfterTheEnd(received);
    return;
  }
  if (header.requeue_number > life_.requeue_number) {
    if (join == nullptr) return;
    Supersede(header.requeue_number);
  }
  if (join != nullptr) {
    OnJoin(header, *join);
    return;
  }
  Node* const node = roster_.Find(header.agent_id);
  if (node == nullptr || node->suspect) {
    if (std::holds_alternative<Leave>(received.message)) return;  // the agent has no ranks
    out_.Reply(header,
               Fenced{node == nullptr ? "the rendezvous does not count on this agent: it was "
                                        "silent for longer than its lease"
                                      : "the session of this agent has ended"});
    return;
  }
  roster_.Heard(*node, now_);
  OnMemberMessage(*node, received);
}

// The end was sent to all agents, and no event can change it. An agent that comes back has missed
// the end. Perhaps the rendezvous gave the node up, and the agent did not notice. An agent that has
// obeyed a leader of another etcd cluster ignores the end until its lease is over. Then the next
// answer to a heartbeat makes it join again, and it hears the end.
void JobMachine::OnReceivedAfterTheEnd(const Received& received) {
  const Header& header = received.header;
  const auto* const join = std::get_if<Join>(&received.message);
  const bool known = Knows(header.agent_id);
  const bool late = join != nullptr && join->job.all_nodes > 0 && !known;
  if (late) ++life_.agents_joined;
  const auto* const heartbeat = std::get_if<Heartbeat>(&received.message);
  const bool missed = join != nullptr
                          ? late || known || header.generation.value >= 0 || join->returning
                          : heartbeat != nullptr && !known;
  if (missed) {
    out_.Reply(header, *finished_);
  } else if (heartbeat != nullptr && options_.one_of_several()) {
    out_.Reply(header, HeartbeatAck{heartbeat->sent_at});
  }
}

void JobMachine::OnMemberMessage(Node& node, const Received& received) {
  const Header& header = received.header;
  if (const auto* stopped = std::get_if<Stopped>(&received.message)) {
    EmitFence(node, header, *stopped);
  }
  // A message about another generation was sent before one of our messages arrived, and no longer
  // matters.
  if (header.generation != generation_.number && !IsAboutTheAgent(received.message)) return;
  std::visit(Overloaded{
                 [](const Join&) {},  // handled above
                 [&](const Heartbeat& heartbeat) { OnHeartbeat(node, header, heartbeat); },
                 [&](const AssignmentAck&) { OnAssignmentAck(node); },
                 [&](const WorkerExited& exit) { OnWorkerExited(node, exit); },
                 [&](const Checkpointed& checkpointed) { OnCheckpointed(node, checkpointed); },
                 [&](const CheckpointDamaged& damaged) {
                   out_.Emit({.kind = JobEvent::Kind::kCheckpointDamaged,
                              .host = node.spec.host,
                              .agent_id = node.agent_id,
                              .reason = damaged.reason,
                              .step = damaged.step});
                 },
                 [&](const CannotSave&) { OnCannotSave(node); },
                 [&](const Preempted& preempted) { OnPreempted(node, preempted); },
                 [&](const Stopped& stopped) { OnStopped(node, stopped); },
                 [&](const Leave& leave) { OnLeave(node, leave); },
                 [&](const HeldStates& held) { survey_.Take(node, held, View().judge()); },
                 [&](const StacksTaken& taken) { stacks_.OnTaken(node, taken); },
                 [&](const StoreElsewhere& elsewhere) { OnStoreElsewhere(node, elsewhere); },
                 [](const LogPiece&) {},  // JobLoop's LogRelay handles it
                 [&](const StandbysReady&) { OnStandbysReady(node); },
                 [&](const RestartTimed& restart) {
                   // Not: the generation ended before every worker made a step. The root cause says
                   // why.
                   if (!restart.times.to_first_step) return;
                   life_.counters.AddRecovery(restart.times);
                   out_.Emit({.kind = JobEvent::Kind::kResumed,
                              .host = node.spec.host,
                              .agent_id = node.agent_id,
                              .times = restart.times});
                 },
             },
             received.message);
}

void JobMachine::OnHeartbeat(Node& node, const Header& header, const Heartbeat& heartbeat) {
  if (header.generation == generation_.number && heartbeat.step) {
    node.told.step = heartbeat.step;
    generation_.Reached(heartbeat.step);
    generation_.tally.rate.Take(*generation_.furthest_step, now_);
    generation_.hang.StepSeen();
  }
  // After Stopped the node's report is final: a heartbeat that differs is older.
  const bool may_change = header.generation == generation_.number && node.phase == Phase::kStarted;
  if (may_change && !heartbeat.states.empty()) {
    survey_.Take(node, heartbeat.states);
    life_.state_times.TakeSnapshots(heartbeat.states, now_);
  }
  if (may_change && heartbeat.can_stand_by) life_.roles_that_stand_by.insert(node.program.role);
  if (may_change && heartbeat.progress) hang_judge_.Take(node, *heartbeat.progress, now_);
  if (may_change && node.first_rank == Rank{0}) generation_.arrivals = heartbeat.arrivals;
  if (heartbeat.usage) TakeUsage(node, *heartbeat.usage);
  TakeFailures(node, heartbeat.failed_checkpoints);
  held_back_.TakeStuck(node, heartbeat.stuck, now_);
  out_.Reply(header, HeartbeatAck{heartbeat.sent_at});
}

void JobMachine::TakeUsage(Node& node, const NodeUsage& usage) {
  const std::int64_t counted = node.counted_snapshots.value_or(usage.failed_snapshots);
  life_.counters.failed_snapshots += std::max<std::int64_t>(usage.failed_snapshots - counted, 0);
  node.counted_snapshots = usage.failed_snapshots;
  node.usage = usage;
}

void JobMachine::TakeFailures(const Node& node, const FailedCheckpoints& failed) {
  if (life_.failures.Take(node.agent_id, node.spec.host, failed) == 0) return;
  out_.Emit({.kind = JobEvent::Kind::kCheckpointFailed,
             .host = node.spec.host,
             .agent_id = node.agent_id,
             .reason = failed.last_reason,
             .step = failed.last_step,
             .failed_checkpoints = life_.failures.total().count});
}

void JobMachine::OnAssignmentAck(Node& node) {
  if (node.phase != Phase::kAssigned) return;  // acknowledged before
  if (state() == JobState::kForming) {
    roster_.SetPhase(node, Phase::kAcknowledged);
  } else if (running()) {  // the other nodes already run: this node's session broke before it could
                           // acknowledge
    roster_.SetPhase(node, Phase::kStarted);
    out_.SendTo(node, Start{});
  }
}

void JobMachine::OnWorkerExited(Node& node, const WorkerExited& exit) {
  if (!running() && state() != JobState::kStopping) return;
  if (node.phase != Phase::kStarted) return;  // it has stopped, and its workers are already counted
  if (!node.told.ended.insert(exit.local_rank).second) return;  // a repetition on a new session
  ++generation_.tally.workers_ended;
  generation_.Reached(exit.step);
  node.told.step = std::max(node.told.step, exit.step);
  if (exit.status.ok()) {
    node.told.succeeded.insert(exit.local_rank);
    ++generation_.tally.workers_succeeded;
    generation_.succeeded_at = now_;
  }
  if (generation_.planned_end) return;  // the plan ends all workers
  generation_.incidents.AddExit(node.spec.host, node.rank, exit);
  if (!exit.status.ok()) {
    out_.Log(Describe(WorkerFailure{node.spec.host, node.rank, generation_.number, exit}));
  }
}

void JobMachine::OnCheckpointed(const Node& node, const Checkpointed& checkpointed) {
  if (!running() || node.phase != Phase::kStarted) return;
  const bool news =
      life_.checkpoint != checkpointed.step || life_.checkpoint_generation != generation_.number;
  life_.reports_checkpoints = true;
  life_.checkpoint = checkpointed.step;
  life_.checkpoint_generation = generation_.number;
  life_.state_times.checkpoint = now_;
  generation_.Reached(checkpointed.step);
  const bool saved = state() == JobState::kSaving;
  if (saved) generation_.plan->saved = true;
  if (news || saved) SaveRecord();
  if (saved) {
    out_.Emit({.kind = JobEvent::Kind::kCheckpointed,
               .host = node.spec.host,
               .agent_id = node.agent_id,
               .step = life_.checkpoint});
  } else {
    ConsiderGrowth();
  }
}

void JobMachine::OnCannotSave(Node& node) {
  if (state() == JobState::kSaving && !std::exchange(node.told.cannot_save, true)) {
    ++generation_.tally.cannot_save;
  }
}

void JobMachine::OnStopped(Node& node, const Stopped& stopped) {
  if (node.phase == Phase::kWaiting) return;  // a duplicate
  survey_.Take(node, stopped);
  TakeFailures(node, stopped.failed_checkpoints);
  generation_.Reached(stopped.last_step);
  node.told.step = std::max(node.told.step, stopped.last_step);
  generation_.start = std::max(generation_.start, stopped.start);
  held_back_.TakeStuck(node, stopped.stuck, now_);
  for (const EnteredCall& entered : stopped.calls) {
    const Rank lowest{node.first_rank.value + entered.local_rank.value};
    generation_.calls.Add(entered.call, lowest, node.spec.host, entered.workers);
  }
  const bool failed_itself =
      generation_.incidents.any() && node.told.ended.size() > node.told.succeeded.size();
  if (stopped.fenced_at_ms != 0 && !generation_.planned_end) {
    // Only the node itself saw its lease end. Its peers may have failed because the node ended its
    // workers.
    generation_.incidents.AddNode(node.agent_id, RootCause::Kind::kNodeLost, node.spec.host,
                                  node.rank,
                                  "it was cut off from the rendezvous and ended its workers");
  } else if (running() && !failed_itself) {
    // An earlier rendezvous had told the node to stop, for a reason that other nodes will report.
    generation_.incidents.AddFollower(node.agent_id, node.spec.host, node.rank,
                                      "it had ended its workers before it came back");
  }
  Free(node);
  node.offered_port = stopped.offered_port;
  if (state() == JobState::kForming) {
    AbandonForming(absl::StrCat(node.spec.host, " gave its ranks back: it was cut off meanwhile"));
  }
}

// The agent repeats fenced_at_ms on each session until its next assignment. It may come in any
// generation, because the node's ranks may now belong to another node.
void JobMachine::EmitFence(Node& node, const Header& header, const Stopped& stopped) {
  if (stopped.fenced_at_ms == std::exchange(node.fenced_at_ms, stopped.fenced_at_ms)) return;
  if (stopped.fenced_at_ms == 0) return;
  JobEvent event{
      .kind = JobEvent::Kind::kFenced, .host = node.spec.host, .agent_id = node.agent_id};
  event.requeue_number = header.requeue_number;
  event.generation = header.generation;
  event.node_time_ms = stopped.fenced_at_ms;
  out_.Add(Happened{std::move(event)});
}

// ---- leaving and loss ----

void JobMachine::OnLeave(Node& node, const Leave& leave) {
  const std::string host = node.spec.host;
  const bool needed = node.member() && !node.done();
  Lose(node, HowLost::kLeft, leave.reason);
  if (finished_ || !needed || roster_.size() >= life_.spec->min_nodes) return;
  Finish({leave.exit_code == kExitPreempted ? Outcome::kPreempted : Outcome::kLeft, leave.exit_code,
          absl::StrCat(host, " left (", leave.reason, ") and ", Nodes(roster_.size()),
                       " of at least ", life_.spec->min_nodes, " remain")});
}

void JobMachine::OnStreamBroken(const StreamBroken& broken) {
  Node* const node = roster_.Find(broken.agent_id);
  if (finished_ || node == nullptr || node->suspect) return;
  if (!options_.leases) {
    Lose(*node, HowLost::kKilled, "its connection broke");
    return;
  }
  roster_.SetSuspect(*node, true);
  // The group may form without this node. It may be the only one that has seen the newest
  // checkpoint in a shared folder, so the others must look again.
  if (!node->member() && node->held.has_worked) survey_.LoseSight(now_);
  if (running() && node->member() && !node->done()) {
    generation_.incidents.AddSuspicion(node->agent_id, node->spec.host, node->rank);
  }
  out_.Emit(
      {.kind = JobEvent::Kind::kDisconnected, .host = node->spec.host, .agent_id = node->agent_id});
  out_.Log(absl::StrCat("lost the connection to ", node->spec.host, "; it has ",
                        Seconds(LeaseEnd(node->heard) - now_), " to come back"));
}

void JobMachine::OnAgentGone(const AgentGone& gone) {
  Node* const node = roster_.Find(gone.agent_id);
  if (finished_ || node == nullptr) return;  // it left, or its lease ended
  if (running() && node->done()) {
    // Its workers are done, so the node matters only if the group forms again.
    roster_.SetSuspect(*node, true);
    roster_.EndLease(*node);
  } else {
    Lose(*node, HowLost::kKilled, "its agent was killed; its workers are gone");
  }
}

void JobMachine::Free(Node& node) {
  stacks_.GiveUp(node);  // the node has no workers
  roster_.SetPhase(node, Phase::kWaiting);
  // As in OnStreamBroken() for a waiting node.
  if (node.suspect && node.held.has_worked) survey_.LoseSight(now_);
  survey_.AskToLookAgain(node);
}

// This rendezvous did not start the node's workers. But if the node was in contact with an earlier
// rendezvous that may still act, that rendezvous may have started them.
void JobMachine::FreeUnstarted(Node& node) {
  Free(node);
  if (const TimePoint end = LeaseEnd(TimePoint::min()); now_ < end) HoldUntil(end);
}

void JobMachine::Erase(Node& node) {
  const bool has_worked = node.held.has_worked;
  stacks_.GiveUp(node);
  roster_.Erase(node);
  if (has_worked) survey_.LoseSight(now_);
}

void JobMachine::PlanRestore(const StateJudge& judge) {
  if (!life_.has_states && !life_.spec->start_anew) return;
  RestoreChoice choice = ChooseRestore(roster_, judge, ReportedCheckpoint(View()));
  if (!choice.discarded.empty()) {
    out_.Log(absl::StrCat("discarded, because a later generation resumed before it: ",
                          absl::StrJoin(choice.discarded, ", ")));
  }
  generation_.restore = std::move(choice.plan);
}

// ---- status and record ----

JobStatus JobMachine::Status(TimePoint now, StatusDetail detail) const {
  JobView view = View();
  view.now = now;
  JobStatus status = StatusOf(view, detail);
  if (running()) hang_judge_.AddProgress(&status, now);
  return status;
}

JobView JobMachine::View() const {
  return {job_, now_, life_, generation_, newest_generation(), roster_, timeline_, finished_};
}

void JobMachine::SaveRecord() { out_.Add(Persist{std::make_shared<const JobRecord>(Record())}); }

}  // namespace ddprun
