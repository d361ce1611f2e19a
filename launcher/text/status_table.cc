#include "launcher/text/status_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "launcher/text/printable.h"
#include "worker/contract/job_name.h"

namespace ddprun {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kManyNodes = 20;  // a larger job's nodes are not shown one by one

std::string Count(std::int64_t count, const char* what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

std::string OrDash(const Json& value) {
  return value.is_number() ? absl::StrCat(value.get<std::int64_t>()) : "-";
}

std::string Ranks(const Json& node) {
  if (!node.at("first_rank").is_number()) return "-";
  const auto first = node.at("first_rank").get<std::int64_t>();
  const auto last = first + node.at("workers").get<std::int64_t>() - 1;
  return first == last ? absl::StrCat(first) : absl::StrCat(first, "-", last);
}

std::string Text(const Json& value) { return Printable(value.get<std::string>()); }

void AddNodes(const std::vector<const Json*>& nodes, std::string* out) {
  std::vector<std::vector<std::string>> rows = {
      {"NODE", "ADDRESS", "STATE", "NODE RANK", "RANKS", "STEP", "HEARD"}};
  for (const Json* const node : nodes) {
    rows.push_back({Text(node->at("host")), Text(node->at("address")), Text(node->at("state")),
                    OrDash(node->at("node_rank")), Ranks(*node), OrDash(node->at("step")),
                    absl::StrCat(Age(node->at("heard_ms_ago").get<double>()), " ago")});
  }
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line = "  ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&line, row[i]);
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 2, ' ');
    }
    absl::StrAppend(out, line, "\n");
  }
}

// True: a hang is reported, and the job runs.
bool IsHung(const Json& job) {
  const auto progress = job.find("progress");
  return job.at("outcome").is_null() && progress != job.end() && !progress->is_null() &&
         progress->at("hang").is_string();
}

// Adds the job's state and its reason.
void AddState(const Json& job, bool over, std::string* out) {
  absl::StrAppend(out, NameOfJob(Text(job.at("job"))), ": ");
  if (over) {
    absl::StrAppend(out, OutcomeText(Text(job.at("outcome"))), " (exit code ",
                    job.at("exit_code").get<int>(), ")");
  } else {
    absl::StrAppend(out, IsHung(job) ? "Hung" : Text(job.at("state")));
  }
  absl::StrAppend(out, ", ", over ? "" : "for ", Age(job.at("since_ms_ago").get<double>()),
                  over ? " ago" : "", "; generation ", job.at("generation").get<int>());
  if (job.at("epoch") != 0) {
    absl::StrAppend(out, ", requeue number ", job.at("epoch").get<std::int64_t>());
  }
  absl::StrAppend(out, "\n");
  if (job.at("reason") != "") absl::StrAppend(out, "  ", Text(job.at("reason")), "\n");
}

// "41 s ago": the time that counts for a hang. "41 s ago (10 min by the clock)": a part of the time
// does not count.
std::string Moved(const Json& progress) {
  const double still = progress.at("still_ms").get<double>();
  const double wall = progress.value("wall_ms", still);  // missing in an earlier version
  return absl::StrCat(Age(still), " ago",
                      wall < still + 1000 ? "" : absl::StrCat(" (", Age(wall), " by the clock)"));
}

// Adds the present hang; without one, the root cause of the last failure.
void AddRootCause(const Json& job, std::string* out) {
  if (IsHung(job)) {
    absl::StrAppend(out, "  root cause: the job ", Text(job.at("progress").at("hang")), "\n");
  } else if (const Json& cause = job.at("last_root_cause"); !cause.is_null()) {
    absl::StrAppend(out, "  root cause in generation ", cause.at("generation").get<int>(), ": ",
                    Text(cause.at("description")), "\n");
  }
}

// Adds the numbers of nodes, workers, steps and restarts, and the failures so far.
void AddCounts(const Json& job, std::string* out) {
  const Json& nodes = job.at("nodes");
  const auto min_nodes = job.at("min_nodes").get<std::int64_t>();
  const auto max_nodes = job.at("max_nodes").get<std::int64_t>();
  const auto spares = static_cast<std::int64_t>(job.at("spares").size());
  absl::StrAppend(
      out, "  ", Count(static_cast<std::int64_t>(nodes.size()) - spares, "node"), " of ",
      min_nodes == max_nodes ? absl::StrCat(max_nodes) : absl::StrCat(min_nodes, ":", max_nodes),
      spares > 0 ? absl::StrCat(" and ", Count(spares, "spare")) : "", "; ",
      Count(job.at("world_size").get<std::int64_t>(), "worker"), "; step ", OrDash(job.at("step")),
      ", checkpoint ", OrDash(job.at("checkpoint")), "; ",
      RestartsText({job.at("restarts").get<std::int64_t>(),
                    job.at("max_restarts").get<std::int64_t>(),
                    job.at("restarts_left").get<std::int64_t>()}),
      "\n");
  if (const auto init = job.find("init"); init != job.end() && !init->is_null()) {
    absl::StrAppend(out, "  ", Text(init->at("text")), "\n");
  }
  if (const auto progress = job.find("progress"); progress != job.end() && !progress->is_null()) {
    absl::StrAppend(out, "  a rank moved ", Moved(*progress));
    if (progress->at("limit_ms").is_number()) {
      absl::StrAppend(out, " (limit ", Age(progress->at("limit_ms").get<double>()), ")");
    }
    absl::StrAppend(out, "\n");
  }
  if (const auto not_judged = job.find("not_judged");
      not_judged != job.end() && !not_judged->is_null()) {
    absl::StrAppend(out, "  hangs are not noticed: ", Text(not_judged->at("why")), "\n");
  }
  if (const auto ranks = job.find("straggler_ranks"); ranks != job.end() && !ranks->empty()) {
    const std::vector<int> all = *ranks;
    absl::StrAppend(out, "  ", StragglersText(all), "\n");
  }
  if (const auto failed = job.at("failed_checkpoints").get<std::int64_t>(); failed > 0) {
    const Json& last = job.at("last_failed_checkpoint");
    absl::StrAppend(out, "  ", Count(failed, "checkpoint"), " failed, the last one at step ",
                    last.at("step").get<std::int64_t>(), " on ", Text(last.at("host")), ": ",
                    Text(last.at("reason")), "\n");
  }
  AddRootCause(job, out);
}

// Adds each node; of many nodes only the unusual ones, unless all are requested.
void AddNodeTable(const Json& nodes, bool all_nodes, std::string* out) {
  std::vector<const Json*> shown;
  std::map<std::string, std::int64_t> states;
  for (const Json& node : nodes) ++states[Text(node.at("state"))];
  const bool collapse = !all_nodes && nodes.size() > kManyNodes;
  std::string common;  // the most frequent state
  if (collapse) {
    common = std::max_element(states.begin(), states.end(), [](const auto& a, const auto& b) {
               return a.second < b.second;
             })->first;
  }
  std::int64_t hidden = 0;
  for (const Json& node : nodes) {
    if (collapse && (Text(node.at("state")) == common || shown.size() == kManyNodes)) {
      ++hidden;
    } else {
      shown.push_back(&node);
    }
  }
  if (!shown.empty()) AddNodes(shown, out);
  if (hidden > 0) {
    std::vector<std::string> counts;
    for (const auto& [state, count] : states) counts.push_back(absl::StrCat(count, " ", state));
    absl::StrAppend(out, "  ", shown.empty() ? "" : "and ", Count(hidden, "node"),
                    shown.empty() ? "" : " more", " (of all: ", absl::StrJoin(counts, ", "),
                    "); -v shows each\n");
  }
}

void AddJob(const Json& job, bool all_nodes, std::string* out) {
  const bool over = !job.at("outcome").is_null();
  AddState(job, over, out);
  AddCounts(job, out);
  // After the job's end its nodes do not matter.
  if (!over || all_nodes) AddNodeTable(job.at("nodes"), all_nodes, out);
}

// Adds the leadership of one of several rendezvous; earlier versions do not send it.
void AddLeadership(const Json& json, std::string* out) {
  const auto found = json.find("leadership");
  if (found == json.end() || found->is_null()) return;
  const Json& leadership = *found;
  const double valid_ms = leadership.at("valid_ms").get<double>();
  if (leadership.at("role") != "leads") {
    absl::StrAppend(out, "it waits; the leader is at ", Text(leadership.at("leader")), "\n");
  } else if (valid_ms <= 0) {
    absl::StrAppend(out, "it leads, term ", Text(leadership.at("term")),
                    ", but etcd has not confirmed it: it acknowledges nothing, and workers end by "
                    "their leases\n");
  } else {
    absl::StrAppend(out, "it leads at ", Text(leadership.at("leader")), ", term ",
                    Text(leadership.at("term")), "; without etcd it leads for another ",
                    Age(valid_ms), "\n");
  }
  const std::string trouble = Text(leadership.value("trouble", Json("")));
  if (trouble.empty()) return;
  absl::StrAppend(out, "etcd takes no change: ", trouble,
                  "; running workers train on, but nothing forms or ends\n");
}

std::string Render(const Json& json, const StatusTableOptions& options) {
  const Json& jobs = json.at("jobs");
  std::string out =
      absl::StrCat("rendezvous ", options.endpoint, ": version ", Text(json.at("version")), ", up ",
                   Age(json.at("uptime_ms").get<double>()), ", ",
                   Count(json.at("sessions").get<std::int64_t>(), "session"), ", ",
                   Count(static_cast<std::int64_t>(jobs.size()), "job"), "\n");
  AddLeadership(json, &out);
  if (const Json& refused = json.at("refused"); !refused.empty()) {
    std::vector<std::string> counts;
    for (const auto& [reason, count] : refused.items()) {
      counts.push_back(absl::StrCat(count.get<std::int64_t>(), " ", Printable(reason)));
    }
    absl::StrAppend(&out, "refused since its start: ", absl::StrJoin(counts, ", "), "\n");
  }
  if (const auto dropped = json.at("event_lines_dropped").get<std::int64_t>(); dropped > 0) {
    absl::StrAppend(&out, "its event file lacks ", Count(dropped, "line"),
                    " that the disk did not take\n");
  }
  for (const Json& job : jobs) {
    absl::StrAppend(&out, "\n");
    AddJob(job, options.all_nodes, &out);
  }
  return out;
}

}  // namespace

std::string Age(double milliseconds) {
  if (milliseconds < 10'000) return absl::StrFormat("%.1f s", std::max(0.0, milliseconds) / 1000);
  const auto seconds = static_cast<std::int64_t>(std::llround(milliseconds / 1000));
  const std::int64_t minutes = seconds / 60;
  const std::int64_t hours = minutes / 60;
  if (minutes == 0) return absl::StrCat(seconds, " s");
  if (hours == 0) return absl::StrCat(minutes, " min ", seconds % 60, " s");
  if (hours < 24) return absl::StrCat(hours, " h ", minutes % 60, " min");
  return absl::StrCat(hours / 24, " d ", hours % 24, " h");
}

std::string OutcomeText(const std::string& outcome) {
  return absl::StrReplaceAll(outcome, {{"_", " "}});
}

std::string RestartsText(const Restarts& restarts) {
  return absl::StrCat(restarts.used, " of ", Count(restarts.most, "restart"), " used, ",
                      restarts.left, " left");
}

std::string StragglersText(const std::vector<int>& ranks) {
  const bool one = ranks.size() == 1;
  return absl::StrCat(one ? "straggler: rank " : "stragglers: ranks ", absl::StrJoin(ranks, ", "),
                      one ? " keeps" : " keep", " the others waiting");
}

absl::StatusOr<std::string> StatusTable(const std::string& json,
                                        const StatusTableOptions& options) {
  try {
    return Render(Json::parse(json), options);
  } catch (const std::exception& error) {  // from nlohmann, for a rendezvous of another version
    return absl::InternalError(
        absl::StrCat("the rendezvous at ", options.endpoint,
                     " answered something that is no status: ", Printable(error.what())));
  }
}

}  // namespace ddprun
