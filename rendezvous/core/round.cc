#include "rendezvous/core/round.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/core/admission.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/overloaded.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/words.h"

namespace ddprun {
namespace {

constexpr int kExitUnavailable = 69;  // EX_UNAVAILABLE

// FNV-1a: the jitter of a job's restarts depends on which job it is, and on nothing else.
std::uint64_t Seed(const std::string& job, std::uint32_t epoch) {
  std::uint64_t hash = 0xcbf29ce484222325 ^ epoch;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

const char* ToString(RoundState state) {
  switch (state) {
    case RoundState::kGathering:
      return "Gathering";
    case RoundState::kLastCall:
      return "LastCall";
    case RoundState::kForming:
      return "Forming";
    case RoundState::kRunning:
      return "Running";
    case RoundState::kDraining:
      return "Draining";
    case RoundState::kBackoff:
      return "Backoff";
    case RoundState::kSucceeded:
      return "Succeeded";
    case RoundState::kFailed:
      return "Failed";
  }
  return "?";
}

Round::Round(std::string job, std::uint32_t epoch, RoundOptions options)
    : job_(std::move(job)), epoch_(epoch), options_(options) {}

std::vector<Round::Action> Round::Step(const Event& event, TimePoint now) {
  actions_.clear();
  if (finished()) return {};  // everybody was told; nothing can change any more
  std::visit(Overloaded{
                 [&](const Received& received) { OnReceived(received, now); },
                 [&](const StreamBroken& broken) { OnStreamBroken(broken, now); },
                 [&](const AgentGone& gone) { OnAgentGone(gone, now); },
                 [&](const Tick&) { OnTick(now); },
             },
             event);
  Advance(now);
  return std::exchange(actions_, {});
}

// ---- events ----

void Round::OnReceived(const Received& received, TimePoint now) {
  const Header& header = received.header;
  if (header.job != job_ || header.epoch != epoch_) {
    Refuse(header, absl::StrCat("this is job ", job_, " epoch ", epoch_, ", not job ", header.job,
                                " epoch ", header.epoch));
    return;
  }
  if (const auto* join = std::get_if<Join>(&received.message)) {
    OnJoin(header, *join, now);
    return;
  }
  Node* node = Find(header.incarnation);
  if (node == nullptr || node->suspect) {
    Refuse(header, "this agent is not part of the job: it has not joined, or was given up as lost");
    return;
  }
  node->heard = now;
  // A message of another generation crossed ours on the way and means nothing any more; these two
  // are about the agent itself.
  const bool about_the_agent = std::holds_alternative<Heartbeat>(received.message) ||
                               std::holds_alternative<Leave>(received.message);
  if (header.generation != generation_ && !about_the_agent) return;
  std::visit(Overloaded{
                 [](const Join&) {},       // handled above
                 [](const Heartbeat&) {},  // its arrival was its meaning
                 [&](const Prepared&) { OnPrepared(*node); },
                 [&](const WorkerExited& exit) { OnWorkerExited(*node, exit); },
                 [](const Checkpointed&) {},
                 [](const CannotSave&) {},
                 [&](const Drained& drained) { OnDrained(*node, drained); },
                 [&](const Leave& leave) { OnLeave(*node, leave, now); },
             },
             received.message);
}

void Round::OnJoin(const Header& header, const Join& join, TimePoint now) {
  if (Find(header.incarnation) != nullptr) {
    Refuse(header, "this agent has joined already");
    return;
  }
  if (const std::string why = WhyMalformed(join); !why.empty()) {
    Refuse(header, why);
    return;
  }
  if (!spec_) {
    spec_ = join.job;
    governor_.emplace(
        RestartPolicy{spec_->max_restarts, spec_->restart_window, spec_->never_restart_on},
        Seed(job_, epoch_));
    Gather(now);
  } else if (const std::string difference = WhyJobDiffers(*spec_, join.job); !difference.empty()) {
    Refuse(header, difference);
    return;
  }
  if (const std::string why = WhyRankIsRefused(join.node); !why.empty()) {
    Refuse(header, why);
    return;
  }
  Node node;
  node.incarnation = header.incarnation;
  node.spec = join.node;
  node.offered_port = join.offered_port;
  node.heard = now;
  const auto place = nodes_.insert(PlaceFor(node), std::move(node));
  const int missing = spec_->max_nodes - CountFree();
  const bool gathering = state_ == RoundState::kGathering || state_ == RoundState::kLastCall;
  if (gathering && missing <= 0) {
    Say(absl::StrCat(join.node.host, " joined with ", join.node.worker_count,
                     " workers; complete"));
    return;
  }
  const std::string waiting =
      gathering ? absl::StrCat("waiting for ", Nodes(missing), "; here: ", FreeHosts())
                : "the job has its nodes and runs; this one waits as a spare, and takes the place "
                  "of one that is lost";
  Say(absl::StrCat(join.node.host, " joined with ", join.node.worker_count, " workers; ", waiting));
  SendTo(*place, Waiting{waiting});
}

std::string Round::WhyRankIsRefused(const NodeSpec& node) const {
  const auto& wanted = node.requested_rank;
  if (!nodes_.empty() && nodes_.front().spec.requested_rank.has_value() != wanted.has_value()) {
    return absl::StrCat("this agent ", wanted ? "asks" : "does not ask",
                        " for a node rank, and the others ", wanted ? "do not" : "do",
                        ": give --node-rank on every node, or on none");
  }
  if (!wanted) return "";
  if (wanted->value < 0 || wanted->value >= spec_->max_nodes) {
    return absl::StrCat("--node-rank is ", wanted->value, ", and a job of ",
                        Nodes(spec_->max_nodes), " has 0 to ", spec_->max_nodes - 1);
  }
  for (const Node& other : nodes_) {
    // One whose connection broke is on its way out: its successor may wait for that.
    if (other.suspect || other.spec.requested_rank != wanted) continue;
    return absl::StrCat("node rank ", wanted->value, " is taken by ", other.spec.host,
                        ": give every node a --node-rank of its own");
  }
  return "";
}

// By the rank that the agents ask for. Where they ask for none, members keep their place, and
// newcomers stand behind them by host name, then by arrival, so that the ranks of a job do not
// depend on which node booted first.
std::vector<Round::Node>::iterator Round::PlaceFor(const Node& node) {
  if (node.spec.requested_rank) {
    return std::upper_bound(nodes_.begin(), nodes_.end(), node, [](const Node& a, const Node& b) {
      return a.spec.requested_rank < b.spec.requested_rank;
    });
  }
  const auto newcomers = std::find_if(nodes_.begin(), nodes_.end(),
                                      [](const Node& other) { return other.rank.value < 0; });
  return std::upper_bound(newcomers, nodes_.end(), node,
                          [](const Node& a, const Node& b) { return a.spec.host < b.spec.host; });
}

void Round::OnPrepared(Node& node) {
  if (state_ != RoundState::kForming || node.phase != Phase::kAssigned) return;  // answered before
  node.phase = Phase::kPrepared;
}

void Round::OnWorkerExited(Node& node, const WorkerExited& exit) {
  if (state_ != RoundState::kRunning && state_ != RoundState::kDraining) return;
  if (node.phase != Phase::kStarted) return;  // drained before: its workers are accounted for
  if (exit.step) made_step_ = true;
  node.ended.insert(exit.local_rank);
  incidents_.AddExit(node.spec.host, node.rank, exit);
  if (exit.status.ok()) {
    node.succeeded.insert(exit.local_rank);
  } else {
    Say(Describe(WorkerFailure{node.spec.host, node.rank, generation_, exit}));
  }
}

void Round::OnDrained(Node& node, const Drained& drained) {
  // In Running it follows a failure report that made us drain, or it is a duplicate.
  if (state_ != RoundState::kDraining || node.phase != Phase::kStarted) return;
  node.phase = Phase::kWaiting;
  node.offered_port = drained.offered_port;
  if (drained.last_step) made_step_ = true;
}

void Round::OnLeave(Node& node, const Leave& leave, TimePoint now) {
  const std::string host = node.spec.host;
  const bool done = node.done();
  Lose(node.incarnation, RootCause::Kind::kNodeLeft, leave.reason, now);
  const int remaining = static_cast<int>(nodes_.size());
  if (!done && generation_.value >= 0 && remaining < spec_->min_nodes) {
    Finish(Outcome::kLeft, leave.exit_code,
           absl::StrCat(host, " left (", leave.reason, ") and ", Nodes(remaining), " of at least ",
                        spec_->min_nodes, " remain"));
  }
}

void Round::OnStreamBroken(const StreamBroken& broken, TimePoint now) {
  Node* node = Find(broken.incarnation);
  if (node == nullptr || node->suspect) return;
  if (HoldsLease(*node)) {
    node->suspect = true;
    if (!node->done()) {
      incidents_.AddSuspicion(node->incarnation, node->spec.host, node->rank);
    }
    Say(absl::StrCat("lost the connection to ", node->spec.host, "; its ranks are kept for ",
                     Seconds(*options_.lease)));
  } else {
    Lose(node->incarnation, RootCause::Kind::kNodeLost, "its connection broke", now);
  }
}

void Round::OnAgentGone(const AgentGone& gone, TimePoint now) {
  Node* node = Find(gone.incarnation);
  if (node == nullptr) return;  // it had left, or its lease was over
  if (state_ == RoundState::kRunning && node->done()) {
    node->suspect = true;  // its part is finished; it is missed only if the group re-forms
  } else {
    Lose(gone.incarnation, RootCause::Kind::kNodeLost, "its agent was killed; its workers are gone",
         now);
  }
}

void Round::OnTick(TimePoint now) {
  std::vector<Incarnation> silent;
  for (const Node& node : nodes_) {
    if (const auto end = LeaseEnd(node); end && now >= *end) silent.push_back(node.incarnation);
  }
  for (const Incarnation incarnation : silent) {
    Node* node = Find(incarnation);
    if (node == nullptr) continue;  // went with another one
    const std::string why = absl::StrCat("nothing heard for ", Seconds(*options_.lease));
    if (!node->suspect) Refuse(HeaderFor(*node), absl::StrCat("out of the job: ", why));
    if (state_ == RoundState::kRunning && node->done()) {
      node->suspect = true;  // its part is finished; it is missed only if the group re-forms
    } else {
      Lose(incarnation, RootCause::Kind::kNodeLost, why, now);
    }
  }
  if (!deadline_ || now < *deadline_) return;
  if (state_ != RoundState::kRunning) deadline_.reset();
  switch (state_) {
    case RoundState::kGathering:
      Finish(Outcome::kTimedOut, kExitUnavailable,
             absl::StrCat("only ", CountFree(), " of at least ", Nodes(spec_->min_nodes),
                          " joined within ", Seconds(spec_->join_timeout), ": ", FreeHosts()));
      break;
    case RoundState::kLastCall:
      Form(now);
      break;
    case RoundState::kForming:
      LoseUnprepared(now);
      break;
    case RoundState::kRunning:
      break;  // Advance drains
    case RoundState::kBackoff:
      Gather(now);
      break;
    default:
      DDPRUN_CHECK(false, "a state without a deadline has one");
  }
}

void Round::LoseUnprepared(TimePoint now) {
  const std::string why =
      absl::StrCat("it did not prepare its ranks within ", Seconds(options_.forming_timeout));
  std::vector<Incarnation> unprepared;
  for (const Node& node : nodes_) {
    if (node.phase != Phase::kAssigned) continue;
    unprepared.push_back(node.incarnation);
    Refuse(HeaderFor(node), absl::StrCat("out of the job: ", why));
  }
  for (const Incarnation incarnation : unprepared)
    Lose(incarnation, RootCause::Kind::kNodeLost, why, now);
}

// ---- transitions ----

void Round::Advance(TimePoint now) {
  if (finished() || !spec_) return;
  if (nodes_.empty()) {
    Finish(Outcome::kFailed, kExitUnavailable, "no agent is left");
    return;
  }
  switch (state_) {
    case RoundState::kGathering:
    case RoundState::kLastCall:
      AdvanceGathering(now);
      break;
    case RoundState::kForming:
      AdvanceForming(now);
      break;
    case RoundState::kRunning:
      AdvanceRunning(now);
      break;
    case RoundState::kDraining:
      AdvanceDraining(now);
      break;
    case RoundState::kBackoff:
    case RoundState::kSucceeded:
    case RoundState::kFailed:
      break;
  }
}

void Round::AdvanceGathering(TimePoint now) {
  const int free = CountFree();
  const bool reforming = generation_.value >= 0;
  if (free >= spec_->max_nodes || (reforming && free >= spec_->min_nodes)) {
    Form(now);
  } else if (free >= spec_->min_nodes && state_ == RoundState::kGathering) {
    Enter(RoundState::kLastCall);
    deadline_ = now + spec_->last_call;
    Say(absl::StrCat("enough nodes; last call for ", Seconds(spec_->last_call)));
  } else if (free < spec_->min_nodes && state_ == RoundState::kLastCall) {
    Gather(now);
  }
}

void Round::AdvanceForming(TimePoint now) {
  for (const Node& node : nodes_) {
    if (node.phase == Phase::kAssigned) return;
  }
  Enter(RoundState::kRunning);
  deadline_.reset();
  started_at_ = now;
  for (Node& node : nodes_) {
    if (!node.member()) continue;
    node.phase = Phase::kStarted;
    SendTo(node, Start{});
  }
}

void Round::AdvanceRunning(TimePoint now) {
  const auto all = [this](auto predicate) {
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [&](const Node& node) { return !node.member() || predicate(node); });
  };
  if (!incidents_.any()) {
    if (all([](const Node& node) { return node.done(); })) {
      Finish(Outcome::kSucceeded, 0, "every worker exited with code 0");
    }
    return;
  }
  const bool more_to_hear = !all([](const Node& node) {
    return static_cast<int>(node.ended.size()) == node.spec.worker_count;
  });
  if (incidents_.OnlyVictims() && more_to_hear) {
    if (!deadline_) deadline_ = now + options_.victim_grace;
    if (now < *deadline_) return;
  }
  Drain(Describe(*incidents_.FindRootCause()), now);
}

void Round::AdvanceDraining(TimePoint now) {
  for (const Node& node : nodes_) {
    if (node.member()) return;
  }
  OnGenerationEnded(now);
}

// No worker of the generation can be alive any more: what ended it, and does the job go on?
void Round::OnGenerationEnded(TimePoint now) {
  DDPRUN_CHECK(incidents_.any(), "a generation drains for a reason");
  RecordCause();
  const RootCause& cause = causes_.back();
  const auto decision = governor_->OnGenerationEnded({cause, made_step_, ran_}, now);
  if (!decision.restart) {
    Finish(Outcome::kFailed, ExitCodeOf(cause), decision.reason);
    return;
  }
  Say(absl::StrCat(decision.reason, ": ", Describe(cause)));
  if (decision.delay > Duration{}) {
    Enter(RoundState::kBackoff);
    deadline_ = now + decision.delay;
    Say(absl::StrCat("no step was made: starting again in ", Seconds(decision.delay)));
    return;
  }
  Gather(now);
  AdvanceGathering(now);
}

void Round::Enter(RoundState next) {
  const auto allowed = [&]() -> bool {
    using enum RoundState;
    switch (state_) {
      case kGathering:
        return next != kRunning && next != kDraining && next != kSucceeded;
      case kLastCall:
        return next == kGathering || next == kForming || next == kFailed;
      case kForming:
        return next == kGathering || next == kRunning || next == kFailed;
      case kRunning:
        return next == kDraining || next == kSucceeded || next == kFailed;
      case kDraining:
        return next == kGathering || next == kBackoff || next == kFailed;
      case kBackoff:
        return next == kGathering || next == kFailed;
      case kSucceeded:
      case kFailed:
        return false;
    }
    return false;
  };
  DDPRUN_CHECK(allowed(), ToString(next));
  state_ = next;
}

void Round::Gather(TimePoint now) {
  Enter(RoundState::kGathering);
  deadline_ = now + spec_->join_timeout;
}

void Round::Form(TimePoint now) {
  Enter(RoundState::kForming);
  deadline_ = now + options_.forming_timeout;
  ++generation_.value;
  incidents_ = Incidents(generation_);
  made_step_ = false;
  std::vector<Node*> members;
  int world_size = 0;
  for (Node& node : nodes_) {
    if (static_cast<int>(members.size()) == spec_->max_nodes) break;
    node.rank = NodeRank{static_cast<int>(members.size())};
    node.first_rank = Rank{world_size};
    node.phase = Phase::kAssigned;
    node.succeeded.clear();
    node.ended.clear();
    world_size += node.spec.worker_count;
    members.push_back(&node);
  }
  const Node& first = *members.front();
  const std::string& master_addr =
      spec_->master_addr.empty() ? first.spec.address : spec_->master_addr;
  const int master_port = spec_->master_port == 0 ? first.offered_port : spec_->master_port;
  Say(absl::StrCat("generation ", generation_.value, ": ", Nodes(static_cast<int>(members.size())),
                   ", ", world_size, " workers, master ", master_addr, ":", master_port));
  for (const Node* member : members) {
    Assignment assignment;
    assignment.node_rank = member->rank;
    assignment.node_count = static_cast<int>(members.size());
    assignment.first_rank = member->first_rank;
    assignment.world_size = world_size;
    assignment.master_addr = master_addr;
    assignment.master_port = master_port;
    assignment.restart_count = restarts_used();
    assignment.max_restarts = spec_->max_restarts;
    SendTo(*member, std::move(assignment));
  }
}

void Round::Drain(const std::string& reason, TimePoint now) {
  Enter(RoundState::kDraining);
  deadline_.reset();
  ran_ = now - started_at_;
  for (const Node& node : nodes_) {
    if (node.phase == Phase::kStarted && !node.suspect) SendTo(node, Stop{reason});
  }
  // A node that finished its part and then went away has no workers to wait for.
  std::vector<Incarnation> gone;
  for (const Node& node : nodes_) {
    if (node.suspect && node.done()) gone.push_back(node.incarnation);
  }
  for (const Incarnation incarnation : gone)
    Lose(incarnation, RootCause::Kind::kNodeLost, "its connection broke", now);
}

void Round::RecordCause() {
  if (std::optional<RootCause> cause = incidents_.FindRootCause()) {
    causes_.push_back(*std::move(cause));
  }
  incidents_ = Incidents(generation_);
  constexpr std::size_t kMaxCauses = 64;
  if (causes_.size() > kMaxCauses) causes_.erase(causes_.begin());
}

void Round::Finish(Outcome outcome, int exit_code, std::string reason) {
  Enter(outcome == Outcome::kSucceeded ? RoundState::kSucceeded : RoundState::kFailed);
  deadline_.reset();
  RecordCause();
  Finished finished{outcome, exit_code, std::move(reason), restarts_used(), std::nullopt, causes_};
  if (outcome != Outcome::kSucceeded && !causes_.empty()) {
    finished.root_cause = std::move(finished.earlier.back());
    finished.earlier.pop_back();
  }
  for (RootCause& cause : finished.earlier) {  // one message must hold them all
    cause.victims.clear();
    cause.failure.exit.stderr_tail.clear();
  }
  Say(absl::StrCat(outcome == Outcome::kSucceeded ? "succeeded: " : "ended: ",
                   finished.root_cause ? Describe(*finished.root_cause) + "; " : "",
                   finished.reason));
  for (const Node& node : nodes_) {
    if (!node.suspect) SendTo(node, finished);
  }
}

void Round::Lose(Incarnation incarnation, RootCause::Kind kind, const std::string& why,
                 TimePoint now) {
  const auto node = std::find_if(nodes_.begin(), nodes_.end(),
                                 [&](const Node& n) { return n.incarnation == incarnation; });
  DDPRUN_CHECK(node != nodes_.end(), "only a known node can be lost");
  const Node lost = std::move(*node);
  nodes_.erase(node);
  Say(absl::StrCat(kind == RootCause::Kind::kNodeLeft ? "" : "lost ", lost.spec.host,
                   kind == RootCause::Kind::kNodeLeft ? " left: " : ": ", why));
  if (!lost.member() || lost.done()) return;  // nobody needs it now
  if (state_ == RoundState::kForming) {
    for (Node& other : nodes_) other.phase = Phase::kWaiting;  // nobody was told to start
    Gather(now);
  } else {
    incidents_.AddNode(incarnation, kind, lost.spec.host, lost.rank, why);  // Advance drains
  }
}

// ---- helpers ----

std::optional<TimePoint> Round::NextDeadline() const {
  if (finished()) return std::nullopt;
  std::optional<TimePoint> next = deadline_;
  for (const Node& node : nodes_) {
    if (const auto end = LeaseEnd(node); end && (!next || *end < *next)) next = end;
  }
  return next;
}

Round::Node* Round::Find(Incarnation incarnation) {
  for (Node& node : nodes_) {
    if (node.incarnation == incarnation) return &node;
  }
  return nullptr;
}

int Round::CountFree() const {
  return static_cast<int>(std::count_if(nodes_.begin(), nodes_.end(), [](const Node& node) {
    return node.phase == Phase::kWaiting;
  }));
}

std::string Round::FreeHosts() const {
  return absl::StrJoin(nodes_, ", ",
                       [](std::string* out, const Node& node) { out->append(node.spec.host); });
}

std::optional<TimePoint> Round::LeaseEnd(const Node& node) const {
  if (!options_.lease || (node.suspect && node.done())) return std::nullopt;
  return node.heard + *options_.lease;
}

// A node whose stream broke keeps its ranks while workers of it may still run.
bool Round::HoldsLease(const Node& node) const {
  return options_.lease && node.phase == Phase::kStarted;
}

Header Round::HeaderFor(const Node& node) const {
  return {job_, epoch_, generation_, node.incarnation};
}

void Round::SendTo(const Node& node, RendezvousMessage message) {
  actions_.push_back(Send{HeaderFor(node), std::move(message)});
}

void Round::Refuse(const Header& header, std::string reason) {
  actions_.push_back(Send{header, Refused{std::move(reason)}});
}

void Round::Say(std::string text) { actions_.push_back(Note{std::move(text)}); }

}  // namespace ddprun
