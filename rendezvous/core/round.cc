#include "rendezvous/core/round.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/overloaded.h"
#include "rendezvous/core/root_cause.h"

namespace ddprun {
namespace {

constexpr int kExitUnavailable = 69;  // EX_UNAVAILABLE

std::string Seconds(Duration duration) {
  return absl::StrCat(std::chrono::duration<double>(duration).count(), " s");
}

std::string Nodes(int count) { return absl::StrCat(count, count == 1 ? " node" : " nodes"); }

// Why `theirs` cannot be in a job that began with `ours`, or "" when it can.
std::string Difference(const JobSpec& ours, const JobSpec& theirs) {
  const auto differ = [](const char* what, auto ours, auto theirs) {
    return absl::StrCat(what, " is ", theirs, " here, but the job began with ", ours,
                        ": start every node with the same command");
  };
  if (theirs.min_nodes != ours.min_nodes || theirs.max_nodes != ours.max_nodes) {
    return differ("--nnodes", absl::StrCat(ours.min_nodes, ":", ours.max_nodes),
                  absl::StrCat(theirs.min_nodes, ":", theirs.max_nodes));
  }
  if (theirs.max_restarts != ours.max_restarts) {
    return differ("--max-restarts", ours.max_restarts, theirs.max_restarts);
  }
  if (theirs.join_timeout != ours.join_timeout) {
    return differ("join_timeout", Seconds(ours.join_timeout), Seconds(theirs.join_timeout));
  }
  if (theirs.last_call != ours.last_call) {
    return differ("last_call", Seconds(ours.last_call), Seconds(theirs.last_call));
  }
  return "";
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
  if (join.node.worker_count < 1 || join.job.min_nodes < 1 ||
      join.job.max_nodes < join.job.min_nodes) {
    Refuse(header, "a node needs at least one worker, and a job 1 ≤ MIN ≤ MAX nodes");
    return;
  }
  if (!spec_) {
    spec_ = join.job;
    Gather(now);
  } else if (const std::string difference = Difference(*spec_, join.job); !difference.empty()) {
    Refuse(header, difference);
    return;
  }
  Node node;
  node.incarnation = header.incarnation;
  node.spec = join.node;
  node.offered_port = join.offered_port;
  node.heard = now;
  // Members keep their place; newcomers stand behind them by host name, then by arrival, so that
  // the ranks of a job do not depend on which node booted first.
  const auto newcomers = std::find_if(nodes_.begin(), nodes_.end(),
                                      [](const Node& other) { return other.rank.value < 0; });
  const auto place =
      std::upper_bound(newcomers, nodes_.end(), node,
                       [](const Node& a, const Node& b) { return a.spec.host < b.spec.host; });
  nodes_.insert(place, std::move(node));
  const int missing = spec_->max_nodes - CountFree();
  switch (state_) {
    case RoundState::kGathering:
    case RoundState::kLastCall:
      Say(absl::StrCat(join.node.host, " joined with ", join.node.worker_count, " workers; ",
                       missing > 0 ? absl::StrCat("waiting for ", Nodes(missing)) : "complete"));
      break;
    default:
      Say(absl::StrCat(join.node.host, " joined while ", ToString(state_),
                       "; it waits for the next generation"));
  }
}

void Round::OnPrepared(Node& node) {
  if (state_ != RoundState::kForming || node.phase != Phase::kAssigned) return;  // answered before
  node.phase = Phase::kPrepared;
}

void Round::OnWorkerExited(Node& node, const WorkerExited& exit) {
  if (state_ != RoundState::kRunning && state_ != RoundState::kDraining) return;
  if (node.phase != Phase::kStarted) return;  // drained before: its workers are accounted for
  if (exit.status.ok()) {
    node.succeeded.insert(exit.local_rank);
    return;
  }
  failures_.push_back({node.spec.host, node.rank, generation_, exit});
  Say(Describe(failures_.back()));
}

void Round::OnDrained(Node& node, const Drained& drained) {
  // In Running it follows a failure report that made us drain, or it is a duplicate.
  if (state_ != RoundState::kDraining || node.phase != Phase::kStarted) return;
  node.phase = Phase::kWaiting;
  node.offered_port = drained.offered_port;
}

void Round::OnLeave(Node& node, const Leave& leave, TimePoint now) {
  const std::string host = node.spec.host;
  Lose(node.incarnation, absl::StrCat("left: ", leave.reason), now);
  const int remaining = static_cast<int>(nodes_.size());
  if (generation_.value >= 0 && remaining < spec_->min_nodes) {
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
    Say(absl::StrCat("lost the connection to ", node->spec.host, "; its ranks are kept for ",
                     Seconds(*options_.lease)));
  } else {
    Lose(node->incarnation, "its connection broke", now);
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
      Lose(incarnation, why, now);
    }
  }
  if (!deadline_ || now < *deadline_) return;
  deadline_.reset();
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
  for (const Incarnation incarnation : unprepared) Lose(incarnation, why, now);
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
      AdvanceForming();
      break;
    case RoundState::kRunning:
      if (!failures_.empty()) {
        Drain(Describe(failures_.front()), now);
      } else if (std::all_of(nodes_.begin(), nodes_.end(),
                             [](const Node& node) { return !node.member() || node.done(); })) {
        Finish(Outcome::kSucceeded, 0, "every worker exited with code 0");
      }
      break;
    case RoundState::kDraining:
      AdvanceDraining(now);
      break;
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

void Round::AdvanceForming() {
  for (const Node& node : nodes_) {
    if (node.phase == Phase::kAssigned) return;
  }
  Enter(RoundState::kRunning);
  deadline_.reset();
  for (Node& node : nodes_) {
    if (!node.member()) continue;
    node.phase = Phase::kStarted;
    SendTo(node, Start{});
  }
}

void Round::AdvanceDraining(TimePoint now) {
  for (const Node& node : nodes_) {
    if (node.member()) return;
  }
  if (!membership_changed_ && !failures_.empty()) {
    const WorkerFailure& cause = failures_[ChooseRootCause(failures_)];
    const bool permanent = IsPermanent(cause);
    if (permanent || restarts_used_ >= spec_->max_restarts) {
      Finish(Outcome::kFailed, cause.exit.status.ShellCode(),
             permanent ? "a restart cannot cure it"
                       : absl::StrCat("no restart is left (", restarts_used_, " of ",
                                      spec_->max_restarts, " used)"),
             cause);
      return;
    }
    ++restarts_used_;
    Say(absl::StrCat("restart ", restarts_used_, " of ", spec_->max_restarts, ": ",
                     Describe(cause)));
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
  failures_.clear();
  membership_changed_ = false;
  std::vector<Node*> members;
  int world_size = 0;
  for (Node& node : nodes_) {
    if (static_cast<int>(members.size()) == spec_->max_nodes) break;
    node.rank = NodeRank{static_cast<int>(members.size())};
    node.first_rank = Rank{world_size};
    node.phase = Phase::kAssigned;
    node.succeeded.clear();
    world_size += node.spec.worker_count;
    members.push_back(&node);
  }
  const Node& first = *members.front();
  Say(absl::StrCat("generation ", generation_.value, ": ", Nodes(static_cast<int>(members.size())),
                   ", ", world_size, " workers, master ", first.spec.address, ":",
                   first.offered_port));
  for (const Node* member : members) {
    Assignment assignment;
    assignment.node_rank = member->rank;
    assignment.node_count = static_cast<int>(members.size());
    assignment.first_rank = member->first_rank;
    assignment.world_size = world_size;
    assignment.master_addr = first.spec.address;
    assignment.master_port = first.offered_port;
    assignment.restart_count = restarts_used_;
    assignment.max_restarts = spec_->max_restarts;
    SendTo(*member, std::move(assignment));
  }
}

void Round::Drain(const std::string& reason, TimePoint now) {
  Enter(RoundState::kDraining);
  deadline_.reset();
  for (const Node& node : nodes_) {
    if (node.phase == Phase::kStarted && !node.suspect) SendTo(node, Stop{reason});
  }
  // A node that finished its part and then went away has no workers to wait for.
  std::vector<Incarnation> gone;
  for (const Node& node : nodes_) {
    if (node.suspect && node.done()) gone.push_back(node.incarnation);
  }
  for (const Incarnation incarnation : gone) Lose(incarnation, "its connection broke", now);
}

void Round::Finish(Outcome outcome, int exit_code, std::string reason,
                   std::optional<WorkerFailure> root_cause) {
  Enter(outcome == Outcome::kSucceeded ? RoundState::kSucceeded : RoundState::kFailed);
  deadline_.reset();
  Say(absl::StrCat(outcome == Outcome::kSucceeded ? "succeeded: " : "ended: ",
                   root_cause ? Describe(*root_cause) + "; " : "", reason));
  const Finished finished{outcome, exit_code, std::move(reason), restarts_used_,
                          std::move(root_cause)};
  for (const Node& node : nodes_) {
    if (!node.suspect) SendTo(node, finished);
  }
}

void Round::Lose(Incarnation incarnation, const std::string& why, TimePoint now) {
  const auto node = std::find_if(nodes_.begin(), nodes_.end(),
                                 [&](const Node& n) { return n.incarnation == incarnation; });
  DDPRUN_CHECK(node != nodes_.end(), "only a known node can be lost");
  const std::string text = absl::StrCat("lost ", node->spec.host, ": ", why);
  const bool member = node->member();
  nodes_.erase(node);
  Say(text);
  if (!member) return;
  membership_changed_ = true;
  if (state_ == RoundState::kForming) {
    for (Node& other : nodes_) other.phase = Phase::kWaiting;  // nobody was told to start
    Gather(now);
  } else if (state_ == RoundState::kRunning) {
    Drain(text, now);
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
