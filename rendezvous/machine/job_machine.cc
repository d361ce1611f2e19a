// What JobMachine does with what agents say, and when they go. What operators ask for is in
// job_machine_operators.cc, what time does in job_machine_time.cc, the transitions are in
// job_machine_transitions.cc, and what it says about itself is in job_machine_output.cc.
#include "rendezvous/machine/job_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/words.h"
#include "rendezvous/machine/admission.h"
#include "worker/contract/overloaded.h"

namespace ddprun {
namespace {

// FNV-1a: the jitter of a job's restarts depends on which job it is, and on nothing else.
std::uint64_t Seed(const std::string& job, std::uint32_t requeue_number) {
  std::uint64_t hash = 0xcbf29ce484222325 ^ requeue_number;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// The finalizer of SplitMix64, which leaves no pattern of its input.
std::uint64_t Mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::string WhyRankIsTaken(NodeRank rank, const std::string& by) {
  return absl::StrCat("node rank ", rank.value, " is taken by ", by,
                      ": give every node a --node-rank of its own");
}

// These are about the agent itself, whatever generation it is in.
bool IsAboutTheAgent(const AgentMessage& message) {
  return std::holds_alternative<Heartbeat>(message) || std::holds_alternative<Leave>(message) ||
         std::holds_alternative<Preempted>(message) || std::holds_alternative<HeldStates>(message);
}

}  // namespace

JobMachine::JobMachine(std::string job, std::uint32_t requeue_number, JobMachineOptions options)
    : job_(std::move(job)), options_(options), life_(requeue_number) {}

std::vector<JobMachine::Action> JobMachine::Step(const Event& event, TimePoint now) {
  actions_.clear();
  now_ = now;
  std::visit(Overloaded{
                 [&](const Received& received) { OnReceived(received); },
                 [&](const StreamBroken& broken) { OnStreamBroken(broken); },
                 [&](const AgentGone& gone) { OnAgentGone(gone); },
                 [&](const StopAsked& asked) { OnStopAsked(asked); },
                 [&](const DrainAsked& asked) { OnDrainAsked(asked); },
                 [&](const StacksAsked& asked) { OnStacksAsked(asked); },
                 [&](const StacksMerged& merged) { OnStacksMerged(merged); },
                 [&](const StacksJudged& judged) { OnStacksJudged(judged); },
                 [&](const Tick&) { OnTick(); },
             },
             event);
  if (generation_.stacks && generation_.stacks->complete()) ConcludeStacks();
  Advance();
  AskToLookAgain();
  return std::exchange(actions_, {});
}

// An agent that was in a generation comes back to the job that it knows, if it was not requeued.
bool JobMachine::BeginsAnother(const Header& header, const Join& join) {
  if (!finished_ || header.requeue_number < life_.requeue_number || Knows(header.agent_id))
    return false;
  // A spare that was cut off must not begin anew what was finished without it; nor one that came
  // too late, of a job that Slurm has started once.
  const bool once = join.job.all_nodes > 0;
  const bool was_here = once || join.returning || header.generation.value >= 0;
  return !was_here || header.requeue_number > life_.requeue_number;
}

// ---- messages ----

void JobMachine::OnReceived(const Received& received) {
  const Header& header = received.header;
  const auto* const join = std::get_if<Join>(&received.message);
  if (header.job != job_) {
    Reply(header, Refused{absl::StrCat("this is job ", job_, ", not ", header.job)});
    return;
  }
  if (header.requeue_number < life_.requeue_number) {
    Reply(header, Refused{absl::StrCat("requeue number ", header.requeue_number, " of job ", job_,
                                       " is over: it was started again, as requeue number ",
                                       life_.requeue_number)});
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
    if (std::holds_alternative<Leave>(received.message)) return;  // nobody counted on it
    Reply(header, Fenced{node == nullptr ? "the rendezvous does not count on this agent: it was "
                                           "silent for longer than its lease"
                                         : "the session of this agent has ended"});
    return;
  }
  roster_.Heard(*node, now_);
  OnMemberMessage(*node, received);
}

// Everybody was told; nothing can change any more. Who comes back had missed it: also one that was
// lost, is not known any more, and perhaps never noticed.
void JobMachine::OnReceivedAfterTheEnd(const Received& received) {
  const Header& header = received.header;
  const auto* const join = std::get_if<Join>(&received.message);
  const bool known = Knows(header.agent_id);
  const bool late = join != nullptr && join->job.all_nodes > 0 && !known;
  if (late) ++life_.agents_joined;
  const bool missed = join != nullptr
                          ? late || known || header.generation.value >= 0 || join->returning
                          : std::holds_alternative<Heartbeat>(received.message) && !known;
  if (missed) Reply(header, *finished_);
}

void JobMachine::OnMemberMessage(Node& node, const Received& received) {
  const Header& header = received.header;
  if (const auto* stopped = std::get_if<Stopped>(&received.message)) {
    EmitFence(node, header, *stopped);
  }
  // A message of another generation crossed ours on the way and means nothing any more.
  if (header.generation != generation_.number && !IsAboutTheAgent(received.message)) return;
  std::visit(
      Overloaded{
          [](const Join&) {},  // handled above
          [&](const Heartbeat& heartbeat) { OnHeartbeat(node, header, heartbeat); },
          [&](const AssignmentAck&) { OnAssignmentAck(node); },
          [&](const WorkerExited& exit) { OnWorkerExited(node, exit); },
          [&](const Checkpointed& checkpointed) { OnCheckpointed(node, checkpointed); },
          [&](const CheckpointDamaged& damaged) {
            Emit({.kind = JobEvent::Kind::kCheckpointDamaged,
                  .host = node.spec.host,
                  .reason = damaged.reason,
                  .step = damaged.step});
          },
          [&](const CannotSave&) { OnCannotSave(node); },
          [&](const Preempted& preempted) { OnPreempted(node, preempted); },
          [&](const Stopped& stopped) { OnStopped(node, stopped); },
          [&](const Leave& leave) { OnLeave(node, leave); },
          [&](const HeldStates& held) { OnHeldStates(node, held); },
          [&](const StacksTaken& taken) { OnStacksTaken(node, taken); },
          [&](const StoreElsewhere& elsewhere) { OnStoreElsewhere(node, elsewhere); },
          [&](const RestartTimed& restart) {
            if (!restart.times.to_first_step) return;  // the next one's cause tells why
            Emit(
                {.kind = JobEvent::Kind::kResumed, .host = node.spec.host, .times = restart.times});
          },
      },
      received.message);
}

void JobMachine::OnJoin(const Header& header, const Join& join) {
  if (Node* const known = roster_.Find(header.agent_id)) {
    OnRejoin(*known, header, join);
    return;
  }
  if (life_.spec && roster_.empty() && !WhyJobDiffers(*life_.spec, join.job).empty()) {
    Supersede(life_.requeue_number);  // nobody of it is left, and somebody began it anew, with
                                      // other settings
  }
  if (const std::string why = WhyJoinIsRefused(join); !why.empty()) {
    Reply(header, Refused{why});
    return;
  }
  if (header.generation.value > kMaxClaimedGeneration) {
    Reply(header, Refused{absl::StrCat("this agent says that it was in generation ",
                                       header.generation.value, ", and no job gets there")});
    return;
  }
  if (!life_.spec) Begin(join.job);
  TakeUpRun(join);
  if (!join.why_ineligible.empty()) {
    OnIneligible(header, join);
    return;
  }
  const bool was_here = join.returning || header.generation.value >= 0;
  if (was_here && generation_.number.value < 0 && options_.leases && gathering() &&
      now_ < life_.begun_at + life_.spec->lease) {
    // There was a rendezvous before this one, and it left no record. Whoever has not come back may
    // have workers for as long as their lease lasts.
    hold_until_ = std::max(hold_until_.value_or(now_), life_.begun_at + life_.spec->lease);
    if (state_ == JobState::kLastCall) Gather();
  }
  if (was_here && generation_.number.value < 0 && look_ == LookId{}) LoseSight();
  highest_claimed_ = std::max(highest_claimed_, header.generation);
  if (join.workers_running) {
    // Of a generation that this rendezvous never knew, or has given up.
    Reply(header, Fenced{"the rendezvous does not count on this agent's workers"});
    return;
  }
  Node node;
  node.agent_id = header.agent_id;
  node.spec = join.node;
  node.offered_port = join.offered_port;
  node.role.program = join.program;
  node.stay.since = now_;
  const Node* const other = ComparableNode(join.program);
  Node& added = roster_.Add(std::move(node), now_);
  TakeHoldings(added, join);
  ++life_.agents_joined;
  Emit(
      {.kind = JobEvent::Kind::kJoined, .host = join.node.host, .workers = join.node.worker_count});
  TakeFailures(added, join.failed_checkpoints);
  HoldBack(added);
  TakeStuck(added, join.stuck);
  Welcome(added);
  AskToLookAgain(added);
  if (other != nullptr) WarnIfArgumentsDiffer(*other, added);
}

void JobMachine::TakeUpRun(const Join& join) {
  if (life_.run_id == RunId{}) life_.run_id = join.run_id;
}

// Of this rendezvous' seed, and of what agents have drawn for themselves.
RunId JobMachine::DrawRunId() const {
  std::uint64_t drawn = Mix(options_.seed ^ Seed(job_, life_.requeue_number));
  for (const Node& node : roster_.nodes()) drawn = Mix(drawn ^ node.agent_id.value);
  return RunId{std::max<std::uint64_t>(drawn, 1)};
}

void JobMachine::HoldBack(Node& node) {
  const auto wait = life_.late_admission.WaitOf(node.spec);
  if (!wait) return;
  const TimePoint until = now_ + wait->delay;
  HeldBack held_back = node.held_back;
  held_back.until = until;
  held_back.why = wait->reason;
  roster_.SetHeldBack(node, std::move(held_back));
  timers_.admission = std::min(timers_.admission.value_or(until), until);
}

void JobMachine::Begin(const JobSpec& spec) {
  life_.spec = spec;
  life_.begun_at = now_;
  life_.governor.emplace(PolicyOf(*life_.spec), Seed(job_, life_.requeue_number));
  life_.quarantine.emplace(life_.spec->quarantine, life_.spec->quarantine_window);
  Gather();
  if (life_.requeue_number > 0 || highest_claimed_.value >= 0)
    SaveRecord();  // so that no earlier one ever comes back
}

// Tells a node that has joined what it waits for.
void JobMachine::Welcome(const Node& added) {
  const NodeSpec& spec = added.spec;
  if (added.held_back.is_stuck()) return;  // told by TakeStuck
  if (added.held_back.until) {
    const std::string why =
        absl::StrCat(spec.host, " (", spec.address, ") is admitted in ",
                     Seconds(*added.held_back.until - now_), ": ", added.held_back.why);
    Log(why);
    SendTo(added, Waiting{why});
    return;
  }
  if (gathering()) {  // told what it waits for if that takes long
    Log(absl::StrCat(spec.host, " joined with ", spec.worker_count, " workers"));
    return;
  }
  const bool room = !(running() || state_ == JobState::kForming) ||
                    roster_.member_count() < life_.spec->max_nodes;
  std::string waiting =
      added.second
          ? absl::StrCat("node rank ", spec.requested_rank->value,
                         " is another node's, which has lost contact; this one takes its place if "
                         "it does not come back")
      : state_ == JobState::kBackoff
          ? WhyItWaits(View())
          : absl::StrCat(room ? "the job runs; this node is taken in "
                              : "the job has its nodes and runs; this one waits as "
                                "a spare, and takes the place of one that is lost",
                         !room                                    ? ""
                         : running() && life_.reports_checkpoints ? "after its next checkpoint"
                                                                  : "when its group forms anew");
  Log(absl::StrCat(spec.host, " joined with ", spec.worker_count, " workers: ", waiting));
  SendTo(added, Waiting{std::move(waiting)});
}

const Node* JobMachine::ComparableNode(const WorkerProgram& program) const {
  const auto& nodes = roster_.nodes();
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const Node& node) {
    return AreComparable(node.role.program, program);
  });
  return found == nodes.end() ? nullptr : &*found;
}

// `first` hears it once, of whichever node: a command may have something of its node in it.
void JobMachine::WarnIfArgumentsDiffer(const Node& first, const Node& added) {
  const auto argument = FirstOtherArgument(first.role.program, added.role.program);
  if (!argument) return;
  const auto warn = [&](const Node& node, const Node& other) {
    const std::string text =
        absl::StrCat("argument ", *argument, " of ", node.role.program.name, " is not the same on ",
                     node.spec.host, " and ", other.spec.host,
                     "; if that is not meant, start every node with the same command");
    SendTo(node, Warning{text});
    Log(text);
  };
  warn(added, first);
  if (!std::exchange(life_.warned_of_arguments, true)) warn(first, added);
}

// Where nodes come and go it may come again, and be fit then.
void JobMachine::OnIneligible(const Header& header, const Join& join) {
  const std::string& host = join.node.host;
  const std::string why = absl::StrCat(host, " stays out: ", join.why_ineligible);
  Log(why);
  Emit({.kind = JobEvent::Kind::kLeft, .host = host, .reason = join.why_ineligible});
  NoteLost(host, join.why_ineligible);
  if (life_.spec->all_nodes > 0 && life_.quarantine->Exclude(host)) {
    ++life_.agents_joined;
    life_.absences.ineligible_host = host;
    life_.absences.why_ineligible = absl::StrCat("it is not fit (", join.why_ineligible, ")");
    SaveRecord();
  }
  Reply(header, Finished{Outcome::kLeft,
                         kExitUnavailable,
                         why,
                         restarts_used(),
                         {},
                         {},
                         life_.failures.total(),
                         ExcludedHosts()});
}

std::string JobMachine::WhyJoinIsRefused(const Join& join) const {
  if (std::string why = WhyMalformed(join); !why.empty()) return why;
  if (!life_.spec) return "";
  if (std::string why = WhyJobDiffers(*life_.spec, join.job); !why.empty()) return why;
  if (const Node* const node = ComparableNode(join.program)) {
    std::string why = WhyProgramDiffers(node->role.program, node->spec.host, join.program);
    if (!why.empty()) return why;
  }
  if (join.why_ineligible.empty() && life_.quarantine->Excludes(join.node.host)) {
    return absl::StrCat(join.node.host, " is left out of job ", job_, ": ",
                        WhyExcluded(join.node.host));
  }
  if (roster_.size() >= options_.max_agents) {
    return absl::StrCat("job ", job_, " has ", roster_.size(), " agents, and no more are possible");
  }
  return WhyRankIsRefused(join.node);
}

std::string JobMachine::WhyRankIsRefused(const NodeSpec& node) const {
  const auto& wanted = node.requested_rank;
  if (!roster_.empty() &&
      roster_.nodes().front().spec.requested_rank.has_value() != wanted.has_value()) {
    return absl::StrCat("this agent ", wanted ? "asks" : "does not ask",
                        " for a node rank, and the others ", wanted ? "do not" : "do",
                        ": give --node-rank on every node, or on none");
  }
  if (!wanted) return "";
  if (wanted->value < 0 || wanted->value >= life_.spec->max_nodes) {
    return absl::StrCat("--node-rank is ", wanted->value, ", and a job of ",
                        Nodes(life_.spec->max_nodes), " has 0 to ", life_.spec->max_nodes - 1);
  }
  const Node* const holder = roster_.HolderOf(*wanted);
  return holder == nullptr ? "" : WhyRankIsTaken(*wanted, holder->spec.host);
}

// `first`, who had the rank of `second`, was cut off meanwhile, and is back.
void JobMachine::RefuseSecond(const Node& first, Node& second) {
  const std::string why = WhyRankIsTaken(*second.spec.requested_rank, first.spec.host);
  SendTo(second, Refused{why});
  Emit({.kind = JobEvent::Kind::kLeft, .host = second.spec.host, .reason = why});
  Log(absl::StrCat(second.spec.host, " has to go: ", why));
  Erase(second);
}

// The session of an agent was replaced: it repeats what it said, and so do we.
void JobMachine::OnRejoin(Node& node, const Header& header, const Join& join) {
  roster_.Heard(node, now_);
  TakeUpRun(join);
  node.role.program = join.program;
  TakeHoldings(node, join);
  if (node.suspect) {
    for (Node* const second : roster_.WaitingForRankOf(node)) RefuseSecond(node, *second);
    roster_.SetSuspect(node, false);
    generation_.incidents.ClearSuspicion(node.agent_id);
    Emit({.kind = JobEvent::Kind::kRejoined, .host = node.spec.host});
    Log(absl::StrCat(node.spec.host, " is back within its lease"));
  }
  TakeFailures(node, join.failed_checkpoints);
  TakeStuck(node, join.stuck);
  const bool here = header.generation == generation_.number;
  if (join.workers_running && !here) {
    Reply(header, Fenced{"its workers are of a generation that is over"});
    return;
  }
  if (!node.member()) {
    node.offered_port = join.offered_port;
    AskToLookAgain(node);
    return;
  }
  if (header.generation > generation_.number) {
    // The record that this rendezvous began with was older than the job: this generation is over.
    highest_claimed_ =
        std::max(highest_claimed_, std::min(header.generation, Generation{kMaxClaimedGeneration}));
    Free(node);
    node.offered_port = join.offered_port;
    if (running()) {
      generation_.incidents.AddNode(node.agent_id, RootCause::Kind::kNodeLost, node.spec.host,
                                    node.rank,
                                    "it had gone on to a later generation than is recorded");
    }
    return;
  }
  if (!here && state_ != JobState::kStopping) {  // it never heard of this generation
    roster_.SetPhase(node, Phase::kAssigned);
    SendTo(node, AssignmentOf(node));
    return;
  }
  switch (state_) {
    case JobState::kRunning:
    case JobState::kSaving:
      SendTo(node, Start{});
      if (state_ == JobState::kSaving) SendTo(node, Save{});
      AskForStacks(node);
      break;
    case JobState::kStopping:
      if (here) {
        SendTo(node, Stop{StateReason(View()), look_});
      } else {
        Free(node);  // none of its workers ever ran
      }
      break;
    default:  // Forming: it knows, and says AssignmentAck once more
      break;
  }
}

void JobMachine::OnHeartbeat(Node& node, const Header& header, const Heartbeat& heartbeat) {
  if (header.generation == generation_.number && heartbeat.step) {
    node.step = heartbeat.step;
    generation_.Reached(heartbeat.step);
    generation_.hang.StepSeen();
  }
  // After Stopped nothing changes: one that says otherwise is older, and late.
  const bool may_change = header.generation == generation_.number && node.phase == Phase::kStarted;
  if (may_change && !heartbeat.states.empty()) TakeStates(node, heartbeat.states);
  if (may_change && heartbeat.progress) TakeProgress(node, *heartbeat.progress);
  if (may_change && node.first_rank == Rank{0}) generation_.arrivals = heartbeat.arrivals;
  TakeFailures(node, heartbeat.failed_checkpoints);
  TakeStuck(node, heartbeat.stuck);
  Reply(header, HeartbeatAck{heartbeat.sent_at});
}

void JobMachine::TakeStuck(Node& node, const StuckProcesses& stuck) {
  if (stuck.report == 0 || stuck.report < node.held_back.stuck.report) return;
  const bool was_stuck = node.held_back.is_stuck();
  HeldBack held_back = node.held_back;
  held_back.stuck = stuck;
  held_back.stuck_told_at = now_;
  roster_.SetHeldBack(node, std::move(held_back));
  if (was_stuck == node.held_back.is_stuck()) return;
  const std::string& host = node.spec.host;
  if (!was_stuck) {
    const std::string why = Describe(stuck);
    Emit({.kind = JobEvent::Kind::kStuck, .host = host, .reason = why});
    const std::string text =
        absl::StrCat(host, " is left out of the job until its processes are gone: ", why);
    Log(text);
    SendTo(node, Waiting{text});
    LoseSight();  // the group may form without it, and it alone may know what it has told
    return;
  }
  Emit({.kind = JobEvent::Kind::kAdmitted, .host = host});
  Log(absl::StrCat(host, " is admitted again: its processes are gone"));
  LoseSight();  // until now they may have written
}

void JobMachine::TakeFailures(const Node& node, const FailedCheckpoints& failed) {
  if (life_.failures.Take(node.agent_id, node.spec.host, failed) == 0) return;
  Emit({.kind = JobEvent::Kind::kCheckpointFailed,
        .host = node.spec.host,
        .reason = failed.last_reason,
        .step = failed.last_step,
        .failed_checkpoints = life_.failures.total().count});
}

void JobMachine::OnAssignmentAck(Node& node) {
  if (node.phase != Phase::kAssigned) return;  // answered before
  if (state_ == JobState::kForming) {
    roster_.SetPhase(node, Phase::kPrepared);
  } else if (running()) {  // the others run already: its first session broke before it could
    roster_.SetPhase(node, Phase::kStarted);
    SendTo(node, Start{});
  }
}

void JobMachine::OnWorkerExited(Node& node, const WorkerExited& exit) {
  if (!running() && state_ != JobState::kStopping) return;
  if (node.phase != Phase::kStarted) return;  // stopped before: its workers are accounted for
  if (!node.ended.insert(exit.local_rank).second) return;  // repeated on a new session
  ++generation_.tally.workers_ended;
  generation_.Reached(exit.step);
  node.step = std::max(node.step, exit.step);
  if (exit.status.ok()) {
    node.succeeded.insert(exit.local_rank);
    ++generation_.tally.workers_succeeded;
  }
  if (generation_.planned_end) return;  // it ends because all of them are to end
  generation_.incidents.AddExit(node.spec.host, node.rank, exit);
  if (!exit.status.ok()) {
    Log(Describe(WorkerFailure{node.spec.host, node.rank, generation_.number, exit}));
  }
}

void JobMachine::OnCheckpointed(const Node& node, const Checkpointed& checkpointed) {
  if (!running() || node.phase != Phase::kStarted) return;
  const bool first = !std::exchange(life_.reports_checkpoints, true);
  life_.checkpoint = checkpointed.step;
  generation_.Reached(checkpointed.step);
  const bool saved = state_ == JobState::kSaving;
  if (saved) life_.plan->saved = true;
  if (first || saved) SaveRecord();
  if (saved) {
    Emit({.kind = JobEvent::Kind::kCheckpointed, .host = node.spec.host, .step = life_.checkpoint});
  } else {
    ConsiderGrowth();
  }
}

void JobMachine::OnCannotSave(Node& node) {
  if (state_ == JobState::kSaving && !std::exchange(node.cannot_save, true)) {
    ++generation_.tally.cannot_save;
  }
}

void JobMachine::OnStopped(Node& node, const Stopped& stopped) {
  if (node.phase == Phase::kWaiting) return;  // a duplicate
  roster_.SetStatesPending(node, stopped.states_pending);
  node.held.told = node.held.told || !stopped.states_pending;
  node.held.looked = stopped.look;
  TakeStates(node, stopped.states);
  TakeFailures(node, stopped.failed_checkpoints);
  generation_.Reached(stopped.last_step);
  node.step = std::max(node.step, stopped.last_step);
  generation_.start = std::max(generation_.start, stopped.start);
  TakeStuck(node, stopped.stuck);
  for (const EnteredCall& entered : stopped.calls) {
    const Rank lowest{node.first_rank.value + entered.local_rank.value};
    generation_.calls.Add(entered.call, lowest, node.spec.host, entered.workers);
  }
  const bool failed_itself =
      generation_.incidents.any() && node.ended.size() > node.succeeded.size();
  if (stopped.fenced_at_ms != 0 && !generation_.planned_end) {
    // Its lease has ended on its side alone: what its peers report may have been for want of it.
    generation_.incidents.AddNode(node.agent_id, RootCause::Kind::kNodeLost, node.spec.host,
                                  node.rank,
                                  "it was cut off from the rendezvous and ended its workers");
  } else if (running() && !failed_itself) {
    // The rendezvous before this one had told it to stop, for a reason that others will repeat.
    generation_.incidents.AddFollower(node.agent_id, node.spec.host, node.rank,
                                      "it had ended its workers before it came back");
  }
  Free(node);
  node.offered_port = stopped.offered_port;
  if (state_ == JobState::kForming) {
    AbandonForming(absl::StrCat(node.spec.host, " gave its ranks back: it was cut off meanwhile"));
  }
}

void JobMachine::OnHeldStates(Node& node, const HeldStates& held) {
  if (node.phase == Phase::kStarted) return;  // too late: what its workers tell is newer
  // An earlier look, overtaken by a later one.
  if (held.look != look_ && node.held.looked == look_) return;
  node.held.looked = held.look;
  node.held.told = true;
  roster_.SetStatesPending(node, false);
  TakeStates(node, held.states);
  AskToLookAgain(node);
  if (!states_wait_ || !states_wait_->enough) return;
  const SavedState* const newest = NewestOf(node, View().judge());
  if (newest != nullptr && newest->step >= *states_wait_->enough) states_wait_->until = now_;
}

// It repeats that on each session until it gets an assignment, and tells of any generation: its
// ranks may have been given away long ago.
void JobMachine::EmitFence(Node& node, const Header& header, const Stopped& stopped) {
  if (stopped.fenced_at_ms == std::exchange(node.fenced_at_ms, stopped.fenced_at_ms)) return;
  if (stopped.fenced_at_ms == 0) return;
  JobEvent event{.kind = JobEvent::Kind::kFenced, .host = node.spec.host};
  event.requeue_number = header.requeue_number;
  event.generation = header.generation;
  event.node_time_ms = stopped.fenced_at_ms;
  actions_.push_back(Happened{std::move(event)});
}

// ---- agents that go ----

void JobMachine::OnLeave(Node& node, const Leave& leave) {
  const std::string host = node.spec.host;
  const bool needed = node.member() && !node.done();
  Lose(node, HowLost::kLeft, leave.reason);
  if (finished_ || !needed || roster_.size() >= life_.spec->min_nodes) return;
  Finish(leave.exit_code == kExitPreempted ? Outcome::kPreempted : Outcome::kLeft, leave.exit_code,
         absl::StrCat(host, " left (", leave.reason, ") and ", Nodes(roster_.size()),
                      " of at least ", life_.spec->min_nodes, " remain"));
}

void JobMachine::OnStreamBroken(const StreamBroken& broken) {
  Node* const node = roster_.Find(broken.agent_id);
  if (finished_ || node == nullptr || node->suspect) return;
  if (!options_.leases) {
    Lose(*node, HowLost::kKilled, "its connection broke");
    return;
  }
  roster_.SetSuspect(*node, true);
  // The group may form without it, and it alone may know what it has told.
  if (!node->member() && node->held.has_worked) LoseSight();
  if (running() && node->member() && !node->done()) {
    generation_.incidents.AddSuspicion(node->agent_id, node->spec.host, node->rank);
  }
  Emit({.kind = JobEvent::Kind::kDisconnected, .host = node->spec.host});
  Log(absl::StrCat("lost the connection to ", node->spec.host, "; it has ",
                   Seconds(life_.spec->lease - (now_ - node->heard)), " to come back"));
}

void JobMachine::OnAgentGone(const AgentGone& gone) {
  Node* const node = roster_.Find(gone.agent_id);
  if (finished_ || node == nullptr) return;  // it had left, or its lease was over
  if (running() && node->done()) {
    // Its part is finished; it is missed only if the group re-forms.
    roster_.SetSuspect(*node, true);
    roster_.EndLease(*node);
  } else {
    Lose(*node, HowLost::kKilled, "its agent was killed; its workers are gone");
  }
}

// ---- states ----

void JobMachine::TakeHoldings(Node& node, const Join& join) {
  roster_.SetStatesPending(node, join.states_pending);
  node.held.told = node.held.told || !join.states_pending;
  node.held.can_look_again = join.can_look_again;
  node.held.looked = join.look;
  node.held.asked = LookId{};  // what was said on another session may be lost
  TakeStates(node, join.states);
}

void JobMachine::TakeStates(Node& node, const std::vector<SavedState>& states) {
  node.held.states = states;
  if (node.held.states.size() > kMaxSavedStates) node.held.states.resize(kMaxSavedStates);
  if (!states.empty()) life_.told_of_states = true;
}

std::uint64_t JobMachine::DrawNumber(std::uint64_t last) const {
  const auto now = static_cast<std::uint64_t>(now_.time_since_epoch().count());
  const std::uint64_t drawn =
      Mix(last ^ Mix(options_.seed ^ Seed(job_, life_.requeue_number) ^ now));
  return std::max<std::uint64_t>(drawn, 1);
}

void JobMachine::LoseSight() {
  look_ = LookId{DrawNumber(look_.value)};
  asks_to_look_ = true;
}

void JobMachine::AskToLookAgain() {
  if (!std::exchange(asks_to_look_, false) || finished_) return;
  for (Node& node : roster_.nodes()) AskToLookAgain(node);
  if (states_wait_) states_wait_->enough = FurthestPossibleStep();
}

void JobMachine::AskToLookAgain(Node& node) {
  if (node.member() || node.suspect) return;  // said with Stop, or when it is back
  if (node.held_back.is_stuck()) return;      // its disk may not answer; when it is admitted
  if (!node.held.can_look_again || node.held.looked == look_) return;
  roster_.SetStatesPending(node, true);
  if (std::exchange(node.held.asked, look_) != look_) SendTo(node, LookAgain{look_});
}

void JobMachine::Free(Node& node) {
  if (generation_.stacks) generation_.stacks->GiveUp(node.agent_id);  // it has no workers
  roster_.SetPhase(node, Phase::kWaiting);
  AskToLookAgain(node);
}

void JobMachine::Erase(Node& node) {
  const bool has_worked = node.held.has_worked;
  if (generation_.stacks) generation_.stacks->GiveUp(node.agent_id);
  roster_.Erase(node);
  if (has_worked) LoseSight();
}

std::optional<std::int64_t> JobMachine::DurableStep() const {
  if (life_.checkpoint) return life_.checkpoint;  // of this life, and so the newest
  const auto& restore = generation_.restore;
  if (restore && restore->state && restore->state->tier == Tier::kDurable) return restore->step();
  return NewestDurable(roster_, View().judge());
}

// Nobody has made a later step, or told of a later checkpoint, in the generation that has ended:
// its members make their steps together, and one of them is here and has told its own. Of a node
// that was lost in it and has joined again nobody knows how far it got.
std::optional<std::int64_t> JobMachine::FurthestPossibleStep() const {
  if (generation_.started_at == TimePoint{} || !generation_.furthest_step) return std::nullopt;
  const auto& members = roster_.members();
  const bool one_has_told = std::any_of(members.begin(), members.end(), [](const Node* node) {
    return node != nullptr && node->free() && node->step;
  });
  if (!one_has_told) return std::nullopt;
  const auto& nodes = roster_.nodes();
  const bool known = std::all_of(nodes.begin(), nodes.end(), [](const Node& node) {
    return !node.held.pending || node.stay.has_started || node.held.told;
  });
  return known ? std::max(generation_.furthest_step, life_.checkpoint) : std::nullopt;
}

std::int64_t JobMachine::NewestKnownStep() const {
  const StateJudge judge = View().judge();
  std::int64_t newest = -1;
  for (const Node& node : roster_.nodes()) {
    if (!node.free()) continue;
    if (const SavedState* const state = NewestOf(node, judge))
      newest = std::max(newest, state->step);
  }
  return newest;
}

bool JobMachine::HasNewState() const {
  const std::int64_t began_with = generation_.restore ? generation_.restore->step() : 0;
  const StateJudge judge = View().judge();
  return std::any_of(roster_.nodes().begin(), roster_.nodes().end(), [&](const Node& node) {
    const SavedState* const newest = NewestOf(node, judge);
    return newest != nullptr && newest->step > began_with;
  });
}

void JobMachine::PlanRestore(const StateJudge& judge) {
  if (!life_.told_of_states && life_.spec->start_anew == 0) return;
  RestoreChoice choice = ChooseRestore(roster_, judge);
  if (!choice.discarded.empty()) {
    Log(absl::StrCat("discarded, because a later generation resumed before it: ",
                     absl::StrJoin(choice.discarded, ", ")));
  }
  generation_.restore = std::move(choice.plan);
}

}  // namespace ddprun
