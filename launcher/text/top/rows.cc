#include "launcher/text/top/rows.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "launcher/text/status_table.h"
#include "launcher/text/top/story.h"
#include "worker/contract/job_name.h"

namespace ddprun::top {
namespace {

constexpr absl::string_view kJobOrders[] = {"urgency", "name", "steps/s", "restarts"};
constexpr absl::string_view kNodeOrders[] = {"trouble", "name", "step", "heard"};
constexpr absl::string_view kRankOrders[] = {"rank", "step"};

constexpr std::int64_t kLagSteps = 2;  // steps come with heartbeats, so nodes differ by one or two

std::string OrDash(const std::optional<std::int64_t>& number) {
  return number ? absl::StrCat(*number) : "-";
}

// True: the row has a rank that keeps the others waiting.
bool Straggles(const Row& row) {
  if (!row.node->first_rank) return false;
  const int first = row.rank >= 0 ? row.rank : *row.node->first_rank;
  const int many = row.rank >= 0 ? 1 : row.node->workers;
  return std::any_of(row.job->notes.stragglers.begin(), row.job->notes.stragglers.end(),
                     [&](int rank) { return rank >= first && rank < first + many; });
}

// How many steps the row is behind, and whether it has a straggler.
std::string LagText(const Row& row) {
  const std::int64_t lag = LagOf(row);
  std::vector<std::string> parts;
  if (lag > kLagSteps) parts.push_back(absl::StrCat(lag, " steps behind"));
  if (Straggles(row)) parts.push_back("straggler");
  return absl::StrJoin(parts, ", ");
}

// The later the worse.
enum class Trouble { kNone, kWaiting, kDraining, kBehind, kLost };

Trouble TroubleOf(const Row& row) {
  const std::string& state = row.node->state;
  if (absl::StartsWith(state, "lost contact") || absl::StartsWith(state, "held back")) {
    return Trouble::kLost;
  }
  if (state == "draining") return Trouble::kDraining;
  if (state != "running" && state != "done") return Trouble::kWaiting;
  return LagOf(row) > kLagSteps || Straggles(row) ? Trouble::kBehind : Trouble::kNone;
}

bool Contains(const std::string& text, const std::string& lower) {
  return absl::StrContains(absl::AsciiStrToLower(text), lower);
}

bool Passes(const Row& row, const std::string& filter) {
  if (filter.empty()) return true;
  if (row.node == nullptr) {
    return Contains(row.job->job, filter) || Contains(StateWord(*row.job), filter);
  }
  return Contains(row.node->host, filter) || Contains(row.node->state, filter) ||
         (row.rank >= 0 && absl::StrCat(row.rank) == filter);
}

void AddNodes(const Look& look, const JobRow& job, std::vector<Row>* rows) {
  for (const NodeRow& node : job.nodes) {
    if (look.view == View::kNodes) {
      rows->push_back({&job, &node});
    } else if (node.first_rank && (look.node.empty() || KeyOf({&job, &node}) == look.node)) {
      for (int i = 0; i < node.workers; ++i) rows->push_back({&job, &node, *node.first_rank + i});
    }
  }
}

void SortJobs(absl::string_view order, std::vector<Row>* rows) {
  const auto by_name = [](const Row& a, const Row& b) { return a.job->job < b.job->job; };
  std::sort(rows->begin(), rows->end(), by_name);
  std::stable_sort(rows->begin(), rows->end(), [&](const Row& a, const Row& b) {
    if (order == "urgency") return UrgencyOf(*a.job) < UrgencyOf(*b.job);
    if (order == "steps/s") {
      return a.job->steps_per_s.value_or(-1) > b.job->steps_per_s.value_or(-1);
    }
    if (order == "restarts") return a.job->restarts.used > b.job->restarts.used;
    return false;
  });
}

void SortNodes(absl::string_view order, std::vector<Row>* rows) {
  std::stable_sort(rows->begin(), rows->end(), [&](const Row& a, const Row& b) {
    if (order == "trouble") return TroubleOf(a) > TroubleOf(b);
    if (order == "name") return a.node->host < b.node->host;
    if (order == "step") return a.node->step.value_or(-1) < b.node->step.value_or(-1);
    if (order == "heard") return a.node->heard_ms > b.node->heard_ms;
    return false;  // keeps the order by rank
  });
}

std::vector<std::string> JobCells(const JobRow& job) {
  const bool moves = job.progress.has_value() && !job.over();
  return {job.job == kUnnamedJob ? "(no name)" : job.job,
          StateWord(job),
          Age(job.since_ms),
          absl::StrCat(job.nodes_without_spares()),
          absl::StrCat(job.world_size),
          OrDash(job.step),
          job.steps_per_s ? absl::StrFormat("%.3g", *job.steps_per_s) : "-",
          moves ? Age(job.progress->still_ms) : "-",
          absl::StrCat(job.restarts.used, " of ", job.restarts.most, " used"),
          job.hung() ? job.progress->hang : job.reason};
}

std::vector<std::string> NodeCells(const Row& row) {
  const NodeRow& node = *row.node;
  std::string ranks = "-";
  if (node.first_rank) {
    ranks = node.workers == 1
                ? absl::StrCat(*node.first_rank)
                : absl::StrCat(*node.first_rank, "-", *node.first_rank + node.workers - 1);
  }
  return {node.host,
          node.address,
          node.state,
          ranks,
          OrDash(node.step),
          LagText(row),
          absl::StrCat(Age(node.heard_ms), " ago")};
}

std::vector<std::string> RankCells(const Row& row) {
  const NodeRow& node = *row.node;
  return {
      absl::StrCat(row.rank), node.host,    absl::StrCat(row.rank - *node.first_rank), node.state,
      OrDash(node.step),      LagText(row), absl::StrCat(Age(node.heard_ms), " ago")};
}

}  // namespace

absl::Span<const absl::string_view> OrdersOf(View view) {
  switch (view) {
    case View::kJobs:
      return kJobOrders;
    case View::kNodes:
      return kNodeOrders;
    case View::kRanks:
      return kRankOrders;
    case View::kText:
      break;
  }
  return {};
}

const JobRow* JobOf(const Look& look, const Snapshot& snapshot) {
  for (const JobRow& job : snapshot.jobs) {
    if (job.job == look.job) return &job;
  }
  return nullptr;
}

std::vector<Row> RowsOf(const Look& look, const Snapshot& snapshot) {
  std::vector<Row> rows;
  if (look.view == View::kJobs) {
    for (const JobRow& job : snapshot.jobs) rows.push_back({&job});
  } else if (const JobRow* const job = JobOf(look, snapshot);
             job != nullptr && look.view != View::kText) {
    AddNodes(look, *job, &rows);
  }
  const std::string filter = absl::AsciiStrToLower(look.filter);
  std::erase_if(rows, [&](const Row& row) { return !Passes(row, filter); });
  const auto orders = OrdersOf(look.view);
  const absl::string_view order = orders.empty() ? "" : orders[look.order % orders.size()];
  if (look.view == View::kJobs) {
    SortJobs(order, &rows);
  } else {
    SortNodes(order, &rows);
  }
  return rows;
}

std::string KeyOf(const Row& row) {
  if (row.rank >= 0) return absl::StrCat(row.rank);
  return row.node != nullptr ? absl::StrCat(row.node->host, " ", row.node->address) : row.job->job;
}

std::int64_t LagOf(const Row& row) {
  if (row.node == nullptr || !row.node->step || !row.job->step) return 0;
  return std::max<std::int64_t>(0, *row.job->step - *row.node->step);
}

std::vector<std::string> HeadOf(View view) {
  switch (view) {
    case View::kJobs:
      return {"JOB",  "STATE",   "FOR",   "NODES",    "WORKERS",
              "STEP", "STEPS/S", "MOVED", "RESTARTS", "WHY"};
    case View::kNodes:
      return {"NODE", "ADDRESS", "STATE", "RANKS", "STEP", "LAG", "HEARD"};
    case View::kRanks:
      return {"RANK", "NODE", "LOCAL RANK", "STATE", "STEP", "LAG", "HEARD"};
    case View::kText:
      break;
  }
  return {};
}

std::vector<std::string> CellsOf(View view, const Row& row) {
  if (view == View::kJobs) return JobCells(*row.job);
  return view == View::kNodes ? NodeCells(row) : RankCells(row);
}

Style StyleOf(View view, const Row& row) {
  if (view == View::kJobs) return MoodOf(*row.job);
  switch (TroubleOf(row)) {
    case Trouble::kLost:
      return Style::kBad;
    case Trouble::kBehind:
    case Trouble::kDraining:
      return Style::kBusy;
    case Trouble::kWaiting:
      return Style::kQuiet;
    case Trouble::kNone:
      break;
  }
  return Style::kPlain;
}

}  // namespace ddprun::top
