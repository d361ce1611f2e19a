#include "rendezvous/machine/job_view.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/core/words.h"

namespace ddprun {
namespace {

// Limit of names in one line.
constexpr std::size_t kNamesShown = 8;

std::string Names(const std::vector<std::string>& shown, int all) {
  const int more = all - static_cast<int>(shown.size());
  return absl::StrCat(absl::StrJoin(shown, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

std::string FreeHosts(const JobView& view) {
  std::vector<std::string> shown;
  for (const Node& node : view.roster.nodes()) {
    if (shown.size() == kNamesShown) break;
    if (node.free()) shown.push_back(node.spec.host);
  }
  return shown.empty() ? "none" : Names(shown, view.roster.free());
}

// The node's stuck processes, with times up to now.
StuckProcesses StuckOf(const JobView& view, const Node& node) {
  return node.held_back.stuck.After(view.now - node.held_back.stuck_told_at);
}

std::string WhyHeldBack(const JobView& view, const Node& node) {
  return node.held_back.is_stuck() ? Describe(StuckOf(view, node)) : node.held_back.why;
}

// Held-back hosts with their reasons, after `title`; "": none. `stuck`: hosts with stuck processes;
// false: the other held-back hosts.
std::string HeldBackHosts(const JobView& view, const char* title, bool stuck) {
  std::vector<std::string> shown;
  int all = 0;
  for (const Node& node : view.roster.nodes()) {
    if (!node.held_back.any() || node.held_back.is_stuck() != stuck) continue;
    if (++all > static_cast<int>(kNamesShown)) continue;
    shown.push_back(absl::StrCat(node.spec.host, " (", WhyHeldBack(view, node), ")"));
  }
  return all == 0 ? "" : absl::StrCat(title, Names(shown, all));
}

// If a node has stuck processes: when the job will end for lack of nodes. Else "".
std::string WhatIfTheyStay(const JobView& view) {
  const auto& nodes = view.roster.nodes();
  const bool stuck = std::any_of(nodes.begin(), nodes.end(),
                                 [](const Node& node) { return node.held_back.is_stuck(); });
  const Duration left = view.life.stage.since + view.life.spec->join_timeout - view.now;
  if (!stuck || left < Duration{}) return "";
  return absl::StrCat("; without enough nodes the job ends in ", TenthsOfSeconds(left));
}

// True if the group is as large as allowed and does not include this node, which could be in it.
bool IsSpare(const JobView& view, const Node& node) {
  if (node.member() || node.held_back.is_stuck()) return false;
  const auto& members = view.roster.members();
  const bool grouped =
      view.running() || view.state() == JobState::kForming || view.state() == JobState::kStopping;
  const bool full = static_cast<int>(members.size()) >= view.life.spec->max_nodes;
  return grouped && full && node.rank.value < 0;
}

NodeStatus StatusOf(const JobView& view, const Node& node) {
  const bool stuck = node.held_back.is_stuck();
  const bool spare = IsSpare(view, node);
  const auto activity = [&]() -> const char* {
    switch (node.phase) {
      case Phase::kWaiting:
        if (stuck || (node.held_back.until && !node.held_back.loads)) return "held back";
        return spare ? "spare" : "waiting";
      case Phase::kAssigned:
        return "assigned";
      case Phase::kAcknowledged:
        return "prepared";
      case Phase::kStarted:
        if (node.done()) return "done";
        return node.removed                          ? "running, is drained"
               : view.state() == JobState::kStopping ? "draining"
                                                     : "running";
    }
    return "?";
  };
  NodeStatus status;
  status.host = node.spec.host;
  status.spare = spare;
  status.address = node.spec.address;
  const char* const does = view.finished ? "ended" : activity();
  status.state = absl::StrCat(node.suspect ? "lost contact: " : "", does);
  status.activity = node.suspect ? "lost contact" : does;
  if (node.held_back.any() && !node.member() && !view.finished) {
    absl::StrAppend(&status.state, ": ", WhyHeldBack(view, node));
  }
  status.stuck = StuckOf(view, node).processes;
  if (node.free() && node.held.pending)
    absl::StrAppend(&status.state, ": its folder of checkpoints has not answered yet");
  status.rank = node.member() ? node.rank : NodeRank{-1};
  status.first_rank = node.first_rank;
  status.workers = node.spec.worker_count;
  status.heard_ago = view.now - node.heard;
  status.step = node.told.step;
  status.usage = node.usage;
  const auto told = view.generation.hang.Find(node.agent_id);
  if (view.running() && told != nullptr && told->workers > 0) {
    status.still = told->still + status.heard_ago;
  }
  if (const SavedState* const newest = NewestOf(node, view.judge())) {
    status.newest_state = *newest;
  }
  return status;
}

void AddNodes(const JobView& view, JobStatus* status) {
  for (const Node* const node : view.roster.members()) {
    if (node != nullptr && node->member()) status->nodes.push_back(StatusOf(view, *node));
  }
  for (const Node& node : view.roster.nodes()) {
    if (!node.member()) status->nodes.push_back(StatusOf(view, node));
  }
}

}  // namespace

std::string HostsWithPendingStates(const JobView& view) {
  std::vector<std::string> shown;
  for (const Node& node : view.roster.nodes()) {
    if (shown.size() == kNamesShown) break;
    if (node.free() && node.held.pending) shown.push_back(node.spec.host);
  }
  return Names(shown, view.roster.states_pending());
}

std::string MissingNodes(const JobView& view) {
  std::string text = absl::StrCat("here: ", FreeHosts(view));
  if (!view.roster.empty() && view.roster.nodes().front().spec.requested_rank) {
    std::vector<std::string> missing;
    int all = 0;
    for (int rank = 0; rank < view.life.spec->max_nodes; ++rank) {
      if (view.roster.HolderOf(NodeRank{rank}) != nullptr) continue;
      if (++all <= static_cast<int>(kNamesShown)) missing.push_back(absl::StrCat(rank));
    }
    if (all > 0) absl::StrAppend(&text, "; missing: --node-rank ", Names(missing, all));
  }
  std::vector<std::string> seconds;
  int all_seconds = 0;
  for (const Node& node : view.roster.nodes()) {
    if (node.second && ++all_seconds <= static_cast<int>(kNamesShown)) {
      seconds.push_back(node.spec.host);
    }
  }
  if (all_seconds > 0) {
    absl::StrAppend(
        &text, "; here for the rank of one that has lost contact: ", Names(seconds, all_seconds));
  }
  absl::StrAppend(&text, HeldBackHosts(view, "; admitted later: ", /*stuck=*/false),
                  HeldBackHosts(view, "; admitted when its processes are gone: ", true));
  if (!view.generation.absences.lost.empty())
    absl::StrAppend(&text, "; gone: ", absl::StrJoin(view.generation.absences.lost, ", "));
  return text;
}

std::string WhyItWaits(const JobView& view) {
  if (view.life.hold_until) {
    return absl::StrCat("waiting until the workers of an earlier generation are sure to be gone; ",
                        MissingNodes(view));
  }
  if (view.state() == JobState::kBackoff) return "waiting before the next restart";
  if (view.life.gathering.states_wait) {
    return absl::StrCat("waiting at most ", Seconds(view.life.spec->join_timeout),
                        " for the folder of checkpoints of ", HostsWithPendingStates(view),
                        ", which has not answered yet and may hold the newest state");
  }
  if (view.state() == JobState::kLastCall) {
    return absl::StrCat("enough nodes; waiting for at most ",
                        Nodes(view.life.spec->max_nodes - view.roster.free()),
                        " more, in the last call; ", MissingNodes(view));
  }
  const int missing = view.life.spec->min_nodes - view.roster.free();
  return absl::StrCat(
      "waiting for ",
      missing > 0 && view.life.spec->min_nodes < view.life.spec->max_nodes ? "at least " : "",
      Nodes(missing), "; ", MissingNodes(view), WhatIfTheyStay(view));
}

std::string WhyNewcomerWaits(const JobView& view, const Node& newcomer) {
  if (newcomer.second) {
    return absl::StrCat("node rank ", newcomer.spec.requested_rank->value,
                        " is another node's, which has lost contact; this one takes its place if "
                        "it does not come back");
  }
  if (view.state() == JobState::kBackoff) return WhyItWaits(view);
  const bool grouped = view.running() || view.state() == JobState::kForming;
  if (grouped && view.roster.member_count() >= view.life.spec->max_nodes) {
    return "the job has its nodes and runs; this one waits as a spare, and takes the place of one "
           "that is lost";
  }
  return absl::StrCat("the job runs; this node is taken in ",
                      view.running() && view.life.reports_checkpoints
                          ? "after its next checkpoint"
                          : "when the next generation forms");
}

std::string StateReason(const JobView& view) {
  switch (view.state()) {
    case JobState::kGathering:
    case JobState::kLastCall:
    case JobState::kBackoff:
      return view.life.spec ? WhyItWaits(view) : "";
    case JobState::kForming:
      return absl::StrCat("waiting for ", Nodes(view.roster.count(Phase::kAssigned)),
                          " to prepare");
    case JobState::kRunning:
      return view.generation.incidents.any() ? "something failed; its cause is still to be heard of"
                                             : "";
    case JobState::kSaving:
      return absl::StrCat("waiting for a checkpoint: ", view.generation.plan->reason);
    case JobState::kStopping:
      return view.generation.stop_reason;
    case JobState::kSucceeded:
    case JobState::kFailed:
      return view.finished->reason;
  }
  return "";
}

std::optional<JobStatus::Arrivals> ArrivalsOf(const GenerationState& generation,
                                              const Roster& roster) {
  const auto& told = generation.arrivals;
  if (!told) return std::nullopt;
  JobStatus::Arrivals arrivals{told->arrived};
  for (const Rank rank : told->missing) {
    for (const Node* const node : roster.members()) {
      if (node == nullptr || rank.value < node->first_rank.value ||
          rank.value >= node->first_rank.value + node->spec.worker_count) {
        continue;
      }
      arrivals.missing.push_back({rank, node->spec.host});
    }
  }
  return arrivals;
}

JobStatus::Measured MeasuredOf(const JobView& view) {
  JobStatus::Measured measured;
  if (view.running()) measured.steps_per_second = view.generation.tally.rate.At(view.now);
  const StateTimes& times = view.life.state_times;
  if (times.checkpoint) measured.checkpoint_age = view.now - *times.checkpoint;
  measured.without_checkpoint = measured.checkpoint_age;
  if (!times.checkpoint && times.start && view.life.saves_checkpoints()) {
    measured.without_checkpoint = view.now - *times.start;
  }
  if (times.snapshot) measured.snapshot_age = view.now - *times.snapshot;
  for (const Node* const node : view.roster.members()) {
    if (node == nullptr || !view.running() || !node->usage.stragglers) continue;
    measured.stragglers = node->usage.stragglers;  // only the node of rank 0 reports them
    measured.straggler_ranks = node->usage.straggler_ranks;
  }
  measured.counters = view.life.counters;
  return measured;
}

JobStatus StatusOf(const JobView& view, StatusDetail detail) {
  JobStatus status;
  status.job = view.job;
  status.requeue_number = view.life.requeue_number;
  status.generation = view.generation.number;
  status.state = view.state();
  status.reason = StateReason(view);
  status.since = view.now - view.life.stage.since;
  if (view.life.spec) status.spec = *view.life.spec;
  status.world_size = view.generation.tally.world_size;
  status.restarts_used = view.life.restarts_used();
  status.restarts_left = view.life.governor ? view.life.governor->restarts_left(view.now) : 0;
  if (detail == StatusDetail::kAll) AddNodes(view, &status);
  const auto& nodes = view.roster.nodes();
  status.spares = static_cast<int>(std::count_if(
      nodes.begin(), nodes.end(), [&view](const Node& node) { return IsSpare(view, node); }));
  for (const Node& node : nodes) status.step = std::max(status.step, node.told.step);
  if (!view.life.causes.empty()) status.last_cause = view.life.causes.back();
  status.checkpoint = view.life.checkpoint;
  status.restore = view.generation.restore;
  status.failed_checkpoints = view.life.failures.total();
  const bool forms_or_runs = !view.finished && view.state() != JobState::kStopping;
  if (forms_or_runs) status.arrivals = ArrivalsOf(view.generation, view.roster);
  status.finished = view.finished;
  status.measured = MeasuredOf(view);
  return status;
}

Assignment AssignmentOf(const JobView& view, const Node& node) {
  Assignment assignment;
  assignment.node_rank = node.rank;
  assignment.node_count = static_cast<int>(view.roster.members().size());
  assignment.first_rank = node.first_rank;
  assignment.world_size = view.generation.tally.world_size;
  assignment.master_addr = view.generation.master_addr;
  assignment.master_port = view.generation.master_port;
  assignment.restart_count = view.life.restarts_used();
  assignment.max_restarts = view.life.spec->max_restarts;
  assignment.restore = view.generation.restore;
  assignment.run_id = view.life.run_id;
  assignment.agent_store = view.life.uses_agent_store();
  assignment.role = node.role;
  return assignment;
}

}  // namespace ddprun
