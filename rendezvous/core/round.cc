// What Round does with what agents say, and when they go. What operators ask for is in
// round_operators.cc, what time does in round_time.cc, the transitions are in round_transitions.cc,
// and what it says about itself is in round_status.cc.
#include "rendezvous/core/round.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/admission.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/overloaded.h"
#include "rendezvous/core/words.h"

namespace ddprun {
namespace {

// FNV-1a: the jitter of a job's restarts depends on which job it is, and on nothing else.
std::uint64_t Seed(const std::string& job, std::uint32_t epoch) {
  std::uint64_t hash = 0xcbf29ce484222325 ^ epoch;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

RestartPolicy PolicyOf(const JobSpec& spec) {
  return {spec.max_restarts, spec.restart_window, spec.never_restart_on};
}

std::string WhyRankIsTaken(NodeRank rank, const std::string& by) {
  return absl::StrCat("node rank ", rank.value, " is taken by ", by,
                      ": give every node a --node-rank of its own");
}

// These are about the agent itself, whatever generation it is in.
bool IsAboutTheAgent(const AgentMessage& message) {
  return std::holds_alternative<Heartbeat>(message) || std::holds_alternative<Leave>(message) ||
         std::holds_alternative<Preempted>(message);
}

}  // namespace

Round::Round(std::string job, std::uint32_t epoch, RoundOptions options)
    : job_(std::move(job)), epoch_(epoch), options_(options) {}

Round::Round(std::string job, const JobRecord& record, TimePoint now, RoundOptions options)
    : job_(std::move(job)),
      epoch_(record.epoch),
      options_(options),
      state_(RoundState::kRunning),
      state_since_(now),
      spec_(record.spec),
      generation_(record.generation),
      master_addr_(record.master_addr),
      master_port_(record.master_port),
      incidents_(record.generation),
      started_at_(now),
      causes_(record.causes),
      reports_checkpoints_(record.reports_checkpoints),
      checkpoint_(record.checkpoint),
      told_of_states_(record.restore.has_value()),
      timeline_(record.timeline),
      restore_(record.restore),
      failures_(record.failed_checkpoints),
      finished_(record.finished) {
  if (restore_) timeline_.Resume({epoch_, generation_, restore_->step()});
  governor_.emplace(PolicyOf(*spec_), record.governor, now);
  quarantine_.emplace(spec_->quarantine, spec_->quarantine_window, record.quarantine, now);
  // The workers may have been told to start: it is treated as if they were, and whoever was not is
  // told when he comes back.
  for (const NodeRecord& member : record.members) {
    Node node;
    node.incarnation = member.incarnation;
    node.spec = member.spec;
    node.offered_port = member.offered_port;
    node.rank = member.rank;
    node.first_rank = member.first_rank;
    node.phase = Phase::kStarted;
    node.suspect = true;
    node.dismissed = member.dismissed;
    tally_.world_size += member.spec.worker_count;
    roster_.RestoreMember(std::move(node), now);
  }
  if (record.plan) {
    plan_ = Plan{.stop = record.plan->stop,
                 .save = record.plan->save,
                 .saved = record.plan->saved,
                 .preempted = record.plan->preempted,
                 .reason = record.plan->reason};
  }
  if (finished_) {
    state_ =
        finished_->outcome == Outcome::kSucceeded ? RoundState::kSucceeded : RoundState::kFailed;
  } else if (record.members.empty()) {  // recorded before a first forming, or all are lost
    state_ = RoundState::kGathering;
    deadline_ = now + spec_->join_timeout;
    // Workers of the epoch before may live as long as any that this rendezvous has not heard of.
    if (options_.leases) hold_until_ = now + spec_->lease;
  }
}

std::vector<Round::Action> Round::Step(const Event& event, TimePoint now) {
  actions_.clear();
  now_ = now;
  std::visit(Overloaded{
                 [&](const Received& received) { OnReceived(received); },
                 [&](const StreamBroken& broken) { OnStreamBroken(broken); },
                 [&](const AgentGone& gone) { OnAgentGone(gone); },
                 [&](const StopAsked& asked) { OnStopAsked(asked); },
                 [&](const DrainAsked& asked) { OnDrainAsked(asked); },
                 [&](const Tick&) { OnTick(); },
             },
             event);
  Advance();
  return std::exchange(actions_, {});
}

// An agent that was in a generation comes back to the job that it knows, if it was not requeued.
bool Round::BeginsAnother(const Header& header, const Join& join) {
  if (!finished_ || header.epoch < epoch_ || Knows(header.incarnation)) return false;
  // A spare that was cut off must not begin anew what was finished without it; nor one that came
  // too late, of a job that Slurm has started once.
  const bool once = join.job.all_nodes > 0;
  const bool was_here = once || join.returning || header.generation.value >= 0;
  return !was_here || header.epoch > epoch_;
}

// ---- messages ----

void Round::OnReceived(const Received& received) {
  const Header& header = received.header;
  const auto* const join = std::get_if<Join>(&received.message);
  if (header.job != job_) {
    Reply(header, Refused{absl::StrCat("this is job ", job_, ", not ", header.job)});
    return;
  }
  if (header.epoch < epoch_) {
    Reply(header, Refused{absl::StrCat("epoch ", header.epoch, " of job ", job_,
                                       " is over: it was started again, as epoch ", epoch_)});
    return;
  }
  if (finished_) {
    OnReceivedAfterTheEnd(received);
    return;
  }
  if (header.epoch > epoch_) {
    if (join == nullptr) return;
    Supersede(header.epoch);
  }
  if (join != nullptr) {
    OnJoin(header, *join);
    return;
  }
  Node* const node = roster_.Find(header.incarnation);
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
void Round::OnReceivedAfterTheEnd(const Received& received) {
  const Header& header = received.header;
  const auto* const join = std::get_if<Join>(&received.message);
  const bool known = Knows(header.incarnation);
  const bool late = join != nullptr && join->job.all_nodes > 0 && !known;
  if (late) ++met_;
  const bool missed = join != nullptr
                          ? late || known || header.generation.value >= 0 || join->returning
                          : std::holds_alternative<Heartbeat>(received.message) && !known;
  if (missed) Reply(header, *finished_);
}

void Round::OnMemberMessage(Node& node, const Received& received) {
  const Header& header = received.header;
  if (const auto* drained = std::get_if<Drained>(&received.message)) {
    TellOfFence(node, header, *drained);
  }
  // A message of another generation crossed ours on the way and means nothing any more.
  if (header.generation != generation_ && !IsAboutTheAgent(received.message)) return;
  std::visit(
      Overloaded{
          [](const Join&) {},  // handled above
          [&](const Heartbeat& heartbeat) { OnHeartbeat(node, header, heartbeat); },
          [&](const Prepared&) { OnPrepared(node); },
          [&](const WorkerExited& exit) { OnWorkerExited(node, exit); },
          [&](const Checkpointed& checkpointed) { OnCheckpointed(node, checkpointed); },
          [&](const CannotSave&) { OnCannotSave(node); },
          [&](const Preempted& preempted) { OnPreempted(node, preempted); },
          [&](const Drained& drained) { OnDrained(node, drained); },
          [&](const Leave& leave) { OnLeave(node, leave); },
          [&](const RestartTimed& restart) {
            if (!restart.times.to_first_step) return;  // the next one's cause tells why
            Tell(
                {.kind = JobEvent::Kind::kResumed, .host = node.spec.host, .times = restart.times});
          },
      },
      received.message);
}

void Round::OnJoin(const Header& header, const Join& join) {
  if (Node* const known = roster_.Find(header.incarnation)) {
    OnRejoin(*known, header, join);
    return;
  }
  if (spec_ && roster_.empty() && !WhyJobDiffers(*spec_, join.job).empty()) {
    Supersede(epoch_);  // nobody of it is left, and somebody began it anew, with other settings
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
  if (!spec_) Begin(join.job);
  if (!join.unfit.empty()) {
    OnUnfit(header, join);
    return;
  }
  const bool was_here = join.returning || header.generation.value >= 0;
  if (was_here && generation_.value < 0 && options_.leases && gathering() &&
      now_ < begun_at_ + spec_->lease) {
    // There was a rendezvous before this one, and it left no record. Whoever has not come back may
    // have workers for as long as their lease lasts.
    hold_until_ = std::max(hold_until_.value_or(now_), begun_at_ + spec_->lease);
    if (state_ == RoundState::kLastCall) Gather();
  }
  floor_ = std::max(floor_, header.generation);
  if (join.workers_running) {
    // Of a generation that this rendezvous never knew, or has given up.
    Reply(header, Fenced{"the rendezvous does not count on this agent's workers"});
    return;
  }
  Node node;
  node.incarnation = header.incarnation;
  node.spec = join.node;
  node.offered_port = join.offered_port;
  TakeStates(node, join.states);
  const Node& added = roster_.Add(std::move(node), now_);
  ++met_;
  Tell(
      {.kind = JobEvent::Kind::kJoined, .host = join.node.host, .workers = join.node.worker_count});
  TakeFailures(added, join.failed_checkpoints);
  Welcome(added);
}

void Round::Begin(const JobSpec& spec) {
  spec_ = spec;
  begun_at_ = now_;
  governor_.emplace(PolicyOf(*spec_), Seed(job_, epoch_));
  quarantine_.emplace(spec_->quarantine, spec_->quarantine_window);
  Gather();
  if (epoch_ > 0 || floor_.value >= 0) Keep();  // so that no earlier one ever comes back
}

// Tells a node that has joined what it waits for.
void Round::Welcome(const Node& added) {
  const NodeSpec& spec = added.spec;
  if (gathering()) {  // told what it waits for if that takes long
    Say(absl::StrCat(spec.host, " joined with ", spec.worker_count, " workers"));
    return;
  }
  const bool room =
      !(running() || state_ == RoundState::kForming) || roster_.member_count() < spec_->max_nodes;
  std::string waiting =
      added.second
          ? absl::StrCat("node rank ", spec.requested_rank->value,
                         " is another node's, which has lost contact; this one takes its place if "
                         "it does not come back")
      : state_ == RoundState::kBackoff
          ? WhyItWaits()
          : absl::StrCat(room ? "the job runs; this node is taken in "
                              : "the job has its nodes and runs; this one waits as "
                                "a spare, and takes the place of one that is lost",
                         !room                               ? ""
                         : running() && reports_checkpoints_ ? "after its next checkpoint"
                                                             : "when its group forms anew");
  Say(absl::StrCat(spec.host, " joined with ", spec.worker_count, " workers: ", waiting));
  SendTo(added, Waiting{std::move(waiting)});
}

// Where nodes come and go it may come again, and be fit then.
void Round::OnUnfit(const Header& header, const Join& join) {
  const std::string& host = join.node.host;
  const std::string why = absl::StrCat(host, " stays out: ", join.unfit);
  Say(why);
  Tell({.kind = JobEvent::Kind::kLeft, .host = host, .reason = join.unfit});
  NoteLost(host, join.unfit);
  if (spec_->all_nodes > 0 && quarantine_->LeaveOut(host)) {
    ++met_;
    unfit_host_ = host;
    why_unfit_ = absl::StrCat("it is not fit (", join.unfit, ")");
    Keep();
  }
  Reply(header, Finished{Outcome::kLeft,
                         kExitUnavailable,
                         why,
                         restarts_used(),
                         {},
                         {},
                         failures_.total(),
                         LeftOut()});
}

std::string Round::WhyJoinIsRefused(const Join& join) const {
  if (std::string why = WhyMalformed(join); !why.empty()) return why;
  if (!spec_) return "";
  if (std::string why = WhyJobDiffers(*spec_, join.job); !why.empty()) return why;
  if (join.unfit.empty() && quarantine_->LeavesOut(join.node.host)) {
    return absl::StrCat(join.node.host, " is left out of job ", job_, ": ", WhyLeftOut());
  }
  if (roster_.size() >= options_.max_agents) {
    return absl::StrCat("job ", job_, " has ", roster_.size(), " agents, and no more are possible");
  }
  return WhyRankIsRefused(join.node);
}

std::string Round::WhyRankIsRefused(const NodeSpec& node) const {
  const auto& wanted = node.requested_rank;
  if (!roster_.empty() &&
      roster_.nodes().front().spec.requested_rank.has_value() != wanted.has_value()) {
    return absl::StrCat("this agent ", wanted ? "asks" : "does not ask",
                        " for a node rank, and the others ", wanted ? "do not" : "do",
                        ": give --node-rank on every node, or on none");
  }
  if (!wanted) return "";
  if (wanted->value < 0 || wanted->value >= spec_->max_nodes) {
    return absl::StrCat("--node-rank is ", wanted->value, ", and a job of ",
                        Nodes(spec_->max_nodes), " has 0 to ", spec_->max_nodes - 1);
  }
  const Node* const holder = roster_.HolderOf(*wanted);
  return holder == nullptr ? "" : WhyRankIsTaken(*wanted, holder->spec.host);
}

// `first`, who had the rank of `second`, was cut off meanwhile, and is back.
void Round::RefuseSecond(const Node& first, Node& second) {
  const std::string why = WhyRankIsTaken(*second.spec.requested_rank, first.spec.host);
  SendTo(second, Refused{why});
  Tell({.kind = JobEvent::Kind::kLeft, .host = second.spec.host, .reason = why});
  Say(absl::StrCat(second.spec.host, " has to go: ", why));
  roster_.Erase(second);
}

// The session of an agent was replaced: it repeats what it said, and so do we.
void Round::OnRejoin(Node& node, const Header& header, const Join& join) {
  roster_.Heard(node, now_);
  TakeStates(node, join.states);
  if (node.suspect) {
    for (Node* const second : roster_.Successors(node)) RefuseSecond(node, *second);
    roster_.SetSuspect(node, false);
    incidents_.ClearSuspicion(node.incarnation);
    Tell({.kind = JobEvent::Kind::kRejoined, .host = node.spec.host});
    Say(absl::StrCat(node.spec.host, " is back within its lease"));
  }
  TakeFailures(node, join.failed_checkpoints);
  const bool here = header.generation == generation_;
  if (join.workers_running && !here) {
    Reply(header, Fenced{"its workers are of a generation that is over"});
    return;
  }
  if (!node.member()) {
    node.offered_port = join.offered_port;
    return;
  }
  if (header.generation > generation_) {
    // The record that this rendezvous began with was older than the job: this generation is over.
    floor_ = std::max(floor_, std::min(header.generation, Generation{kMaxClaimedGeneration}));
    roster_.SetPhase(node, Phase::kWaiting);
    node.offered_port = join.offered_port;
    if (running()) {
      incidents_.AddNode(node.incarnation, RootCause::Kind::kNodeLost, node.spec.host, node.rank,
                         "it had gone on to a later generation than is recorded");
    }
    return;
  }
  if (!here && state_ != RoundState::kDraining) {  // it never heard of this generation
    roster_.SetPhase(node, Phase::kAssigned);
    SendTo(node, AssignmentOf(node));
    return;
  }
  switch (state_) {
    case RoundState::kForming:
      break;  // it knows, and says Prepared once more
    case RoundState::kRunning:
    case RoundState::kSaving:
      SendTo(node, Start{});
      if (state_ == RoundState::kSaving) SendTo(node, Save{});
      break;
    case RoundState::kDraining:
      if (here) {
        SendTo(node, Stop{StateReason()});
      } else {
        roster_.SetPhase(node, Phase::kWaiting);  // none of its workers ever ran
      }
      break;
    default:
      break;
  }
}

void Round::OnHeartbeat(Node& node, const Header& header, const Heartbeat& heartbeat) {
  if (header.generation == generation_ && heartbeat.step) {
    node.step = heartbeat.step;
    made_step_ = true;
  }
  // After Drained nothing changes: one that says otherwise is older, and late.
  const bool may_change = header.generation == generation_ && node.phase == Phase::kStarted;
  if (may_change && !heartbeat.states.empty()) TakeStates(node, heartbeat.states);
  TakeFailures(node, heartbeat.failed_checkpoints);
  Reply(header, HeartbeatAck{heartbeat.sent_at});
}

void Round::TakeFailures(const Node& node, const FailedCheckpoints& failed) {
  if (failures_.Take(node.incarnation, node.spec.host, failed) == 0) return;
  Tell({.kind = JobEvent::Kind::kCheckpointFailed,
        .host = node.spec.host,
        .reason = failed.last_reason,
        .step = failed.last_step,
        .failed_checkpoints = failures_.total().count});
}

void Round::OnPrepared(Node& node) {
  if (node.phase != Phase::kAssigned) return;  // answered before
  if (state_ == RoundState::kForming) {
    roster_.SetPhase(node, Phase::kPrepared);
  } else if (running()) {  // the others run already: its first session broke before it could
    roster_.SetPhase(node, Phase::kStarted);
    SendTo(node, Start{});
  }
}

void Round::OnWorkerExited(Node& node, const WorkerExited& exit) {
  if (!running() && state_ != RoundState::kDraining) return;
  if (node.phase != Phase::kStarted) return;  // drained before: its workers are accounted for
  if (!node.ended.insert(exit.local_rank).second) return;  // repeated on a new session
  ++tally_.workers_ended;
  if (exit.step) {
    made_step_ = true;
    node.step = std::max(node.step, exit.step);
  }
  if (exit.status.ok()) {
    node.succeeded.insert(exit.local_rank);
    ++tally_.workers_succeeded;
  }
  if (planned_end_) return;  // it ends because all of them are to end
  incidents_.AddExit(node.spec.host, node.rank, exit);
  if (!exit.status.ok()) {
    Say(Describe(WorkerFailure{node.spec.host, node.rank, generation_, exit}));
  }
}

void Round::OnCheckpointed(const Node& node, const Checkpointed& checkpointed) {
  if (!running() || node.phase != Phase::kStarted) return;
  const bool first = !std::exchange(reports_checkpoints_, true);
  checkpoint_ = checkpointed.step;
  made_step_ = true;
  const bool saved = state_ == RoundState::kSaving;
  if (saved) plan_->saved = true;
  if (first || saved) Keep();
  if (saved) {
    Tell({.kind = JobEvent::Kind::kCheckpointed, .host = node.spec.host, .step = checkpoint_});
  } else {
    ConsiderGrowth();
  }
}

void Round::OnCannotSave(Node& node) {
  if (state_ == RoundState::kSaving && !std::exchange(node.cannot_save, true)) {
    ++tally_.cannot_save;
  }
}

void Round::OnDrained(Node& node, const Drained& drained) {
  if (node.phase == Phase::kWaiting) return;  // a duplicate
  TakeStates(node, drained.states);
  TakeFailures(node, drained.failed_checkpoints);
  if (drained.last_step) {
    made_step_ = true;
    node.step = std::max(node.step, drained.last_step);
  }
  const bool failed_itself = incidents_.any() && node.ended.size() > node.succeeded.size();
  if (drained.fenced_at_ms != 0 && !planned_end_) {
    // Its lease has ended on its side alone: what its peers report may have been for want of it.
    incidents_.AddNode(node.incarnation, RootCause::Kind::kNodeLost, node.spec.host, node.rank,
                       "it was cut off from the rendezvous and ended its workers");
  } else if (running() && !failed_itself) {
    // The rendezvous before this one had told it to stop, for a reason that others will repeat.
    incidents_.AddFollower(node.incarnation, node.spec.host, node.rank,
                           "it had ended its workers before it came back");
  }
  roster_.SetPhase(node, Phase::kWaiting);
  node.offered_port = drained.offered_port;
  if (state_ == RoundState::kForming) {
    AbandonForming(absl::StrCat(node.spec.host, " gave its ranks back: it was cut off meanwhile"));
  }
}

// It repeats that on each session until it gets an assignment, and tells of any generation: its
// ranks may have been given away long ago.
void Round::TellOfFence(Node& node, const Header& header, const Drained& drained) {
  if (drained.fenced_at_ms == std::exchange(node.fenced_at_ms, drained.fenced_at_ms)) return;
  if (drained.fenced_at_ms == 0) return;
  JobEvent event{.kind = JobEvent::Kind::kFenced, .host = node.spec.host};
  event.epoch = header.epoch;
  event.generation = header.generation;
  event.node_time_ms = drained.fenced_at_ms;
  actions_.push_back(Happened{std::move(event)});
}

// ---- agents that go ----

void Round::OnLeave(Node& node, const Leave& leave) {
  const std::string host = node.spec.host;
  const bool needed = node.member() && !node.done();
  Lose(node, HowLost::kLeft, leave.reason);
  if (finished_ || !needed || roster_.size() >= spec_->min_nodes) return;
  Finish(leave.exit_code == kExitPreempted ? Outcome::kPreempted : Outcome::kLeft, leave.exit_code,
         absl::StrCat(host, " left (", leave.reason, ") and ", Nodes(roster_.size()),
                      " of at least ", spec_->min_nodes, " remain"));
}

void Round::OnStreamBroken(const StreamBroken& broken) {
  Node* const node = roster_.Find(broken.incarnation);
  if (finished_ || node == nullptr || node->suspect) return;
  if (!options_.leases) {
    Lose(*node, HowLost::kKilled, "its connection broke");
    return;
  }
  roster_.SetSuspect(*node, true);
  if (running() && node->member() && !node->done()) {
    incidents_.AddSuspicion(node->incarnation, node->spec.host, node->rank);
  }
  Tell({.kind = JobEvent::Kind::kDisconnected, .host = node->spec.host});
  Say(absl::StrCat("lost the connection to ", node->spec.host, "; it has ",
                   Seconds(spec_->lease - (now_ - node->heard)), " to come back"));
}

void Round::OnAgentGone(const AgentGone& gone) {
  Node* const node = roster_.Find(gone.incarnation);
  if (finished_ || node == nullptr) return;  // it had left, or its lease was over
  if (running() && node->done()) {
    // Its part is finished; it is missed only if the group re-forms.
    roster_.SetSuspect(*node, true);
    roster_.EndLease(*node);
  } else {
    Lose(*node, HowLost::kKilled, "its agent was killed; its workers are gone");
  }
}

}  // namespace ddprun
