// Round: what it says about itself.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/core/round.h"
#include "rendezvous/core/words.h"

namespace ddprun {
namespace {

// So many names fit into a line that a person reads.
constexpr std::size_t kNamesShown = 8;

std::string Names(const std::vector<std::string>& shown, int all) {
  const int more = all - static_cast<int>(shown.size());
  return absl::StrCat(absl::StrJoin(shown, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
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
    case RoundState::kSaving:
      return "Saving";
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

std::string Round::FreeHosts() const {
  std::vector<std::string> shown;
  for (const Node& node : roster_.nodes()) {
    if (shown.size() == kNamesShown) break;
    if (node.free()) shown.push_back(node.spec.host);
  }
  return shown.empty() ? "none" : Names(shown, roster_.free());
}

// Who is missing, as far as it can be known: by the ranks that nobody has asked for, by who was
// here.
std::string Round::MissingNodes() const {
  std::string text = absl::StrCat("here: ", FreeHosts());
  if (!roster_.empty() && roster_.nodes().front().spec.requested_rank) {
    std::vector<std::string> missing;
    int all = 0;
    for (int rank = 0; rank < spec_->max_nodes; ++rank) {
      if (roster_.HolderOf(NodeRank{rank}) != nullptr) continue;
      if (++all <= static_cast<int>(kNamesShown)) missing.push_back(absl::StrCat(rank));
    }
    if (all > 0) absl::StrAppend(&text, "; missing: --node-rank ", Names(missing, all));
  }
  std::vector<std::string> seconds;
  int all_seconds = 0;
  for (const Node& node : roster_.nodes()) {
    if (node.second && ++all_seconds <= static_cast<int>(kNamesShown)) {
      seconds.push_back(node.spec.host);
    }
  }
  if (all_seconds > 0) {
    absl::StrAppend(
        &text, "; here for the rank of one that has lost contact: ", Names(seconds, all_seconds));
  }
  if (!lost_.empty()) absl::StrAppend(&text, "; gone: ", absl::StrJoin(lost_, ", "));
  return text;
}

std::string Round::WhyItWaits() const {
  if (hold_until_) {
    return absl::StrCat("waiting until the workers of an earlier group are sure to be gone; ",
                        MissingNodes());
  }
  if (state_ == RoundState::kBackoff) return "waiting before the next restart";
  if (state_ == RoundState::kLastCall) {
    return absl::StrCat("enough nodes; waiting for at most ",
                        Nodes(spec_->max_nodes - roster_.free()), " more, in the last call; ",
                        MissingNodes());
  }
  const int missing = spec_->min_nodes - roster_.free();
  return absl::StrCat("waiting for ",
                      missing > 0 && spec_->min_nodes < spec_->max_nodes ? "at least " : "",
                      Nodes(missing), "; ", MissingNodes());
}

std::string Round::StateReason() const {
  switch (state_) {
    case RoundState::kGathering:
    case RoundState::kLastCall:
    case RoundState::kBackoff:
      return spec_ ? WhyItWaits() : "";
    case RoundState::kForming:
      return absl::StrCat("waiting for ", Nodes(roster_.count(Phase::kAssigned)), " to prepare");
    case RoundState::kRunning:
      return incidents_.any() ? "something failed; its cause is still to be heard of" : "";
    case RoundState::kSaving:
      return absl::StrCat("waiting for a checkpoint: ", plan_->reason);
    case RoundState::kDraining:
      return stop_reason_;
    case RoundState::kSucceeded:
    case RoundState::kFailed:
      return finished_->reason;
  }
  return "";
}

bool Round::HasHost(const std::string& host) const {
  return std::any_of(roster_.nodes().begin(), roster_.nodes().end(), [&](const Node& node) {
    return node.spec.host == host || node.spec.address == host;
  });
}

// There is a group of as many as the job may have, and this one is not of it.
bool Round::IsSpare(const Node& node) const {
  const auto& members = roster_.members();
  const bool grouped =
      running() || state_ == RoundState::kForming || state_ == RoundState::kDraining;
  if (!grouped || static_cast<int>(members.size()) < spec_->max_nodes) return false;
  const auto rank = static_cast<std::size_t>(node.rank.value);  // of an earlier group, perhaps
  return node.rank.value < 0 || rank >= members.size() || members[rank] != &node;
}

NodeStatus Round::StatusOf(const Node& node, TimePoint now) const {
  const bool spare = !node.member() && IsSpare(node);
  const auto activity = [&]() -> const char* {
    switch (node.phase) {
      case Phase::kWaiting:
        return spare ? "spare" : "waiting";
      case Phase::kAssigned:
        return "assigned";
      case Phase::kPrepared:
        return "prepared";
      case Phase::kStarted:
        if (node.done()) return "done";
        return node.dismissed                    ? "running, is drained"
               : state_ == RoundState::kDraining ? "draining"
                                                 : "running";
    }
    return "?";
  };
  NodeStatus status;
  status.host = node.spec.host;
  status.spare = spare;
  status.address = node.spec.address;
  status.state =
      absl::StrCat(node.suspect ? "lost contact: " : "", finished() ? "ended" : activity());
  status.rank = node.member() ? node.rank : NodeRank{-1};
  status.first_rank = node.first_rank;
  status.workers = node.spec.worker_count;
  status.heard_ago = now - node.heard;
  status.step = node.step;
  if (const SavedState* const newest = NewestOf(node, std::max(generation_, floor_))) {
    status.newest_state = *newest;
  }
  return status;
}

JobStatus Round::Status(TimePoint now) const {
  JobStatus status;
  status.job = job_;
  status.epoch = epoch_;
  status.generation = generation_;
  status.state = state_;
  status.reason = StateReason();
  status.since = now - state_since_;
  if (spec_) status.spec = *spec_;
  status.world_size = tally_.world_size;
  status.restarts_used = restarts_used();
  status.restarts_left = governor_ ? governor_->restarts_left(now) : 0;
  for (const Node* const node : roster_.members()) {
    if (node != nullptr && node->member()) status.nodes.push_back(StatusOf(*node, now));
  }
  for (const Node& node : roster_.nodes()) {
    if (!node.member()) status.nodes.push_back(StatusOf(node, now));
  }
  for (const Node& node : roster_.nodes()) status.step = std::max(status.step, node.step);
  if (!causes_.empty()) status.last_cause = causes_.back();
  status.checkpoint = checkpoint_;
  status.restore = restore_;
  status.failed_checkpoints = failures_.total();
  status.finished = finished_;
  return status;
}

JobRecord Round::Record() const {
  JobRecord record;
  record.epoch = epoch_;
  record.spec = *spec_;
  record.generation = generation_;
  record.master_addr = master_addr_;
  record.master_port = master_port_;
  for (const Node* const node : roster_.members()) {
    if (node == nullptr) continue;
    // Also one whose workers are gone by now: it says so again to the rendezvous that reads this.
    record.members.push_back({node->incarnation, node->spec, node->offered_port, node->rank,
                              node->first_rank, node->dismissed});
  }
  record.governor = governor_->Record(now_);
  record.causes = causes_;
  record.reports_checkpoints = reports_checkpoints_;
  record.checkpoint = checkpoint_;
  if (plan_) {
    record.plan = {plan_->stop, plan_->save, plan_->reason, plan_->saved, plan_->preempted};
  }
  record.restore = restore_;
  record.timeline = timeline_.points();
  record.failed_checkpoints = failures_.Record();
  record.quarantine = quarantine_->Record(now_);
  record.finished = finished_;
  return record;
}

Assignment Round::AssignmentOf(const Node& node) const {
  Assignment assignment;
  assignment.node_rank = node.rank;
  assignment.node_count = static_cast<int>(roster_.members().size());
  assignment.first_rank = node.first_rank;
  assignment.world_size = tally_.world_size;
  assignment.master_addr = master_addr_;
  assignment.master_port = master_port_;
  assignment.restart_count = restarts_used();
  assignment.max_restarts = spec_->max_restarts;
  assignment.restore = restore_;
  return assignment;
}

Header Round::HeaderFor(const Node& node) const {
  return {job_, epoch_, generation_, node.incarnation};
}

void Round::SendTo(const Node& node, RendezvousMessage message) {
  actions_.push_back(Send{HeaderFor(node), std::move(message)});
}

void Round::Reply(const Header& header, RendezvousMessage message) {
  actions_.push_back(Send{header, std::move(message)});
}

void Round::Keep() { actions_.emplace_back(std::in_place_type<Persist>, Persist{Record()}); }

void Round::Tell(JobEvent event) {
  event.epoch = epoch_;
  event.generation = generation_;
  actions_.push_back(Happened{std::move(event)});
}

void Round::Say(std::string text) { actions_.push_back(Note{std::move(text)}); }

}  // namespace ddprun
