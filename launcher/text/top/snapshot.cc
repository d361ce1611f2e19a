#include "launcher/text/top/snapshot.h"

#include <exception>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "launcher/text/printable.h"

namespace ddprun::top {
namespace {

using Json = nlohmann::json;

std::string TextOf(const Json& value) {
  return value.is_string() ? Printable(value.get<std::string>()) : std::string();
}

template <typename T>
std::optional<T> NumberOf(const Json& value) {
  return value.is_number() ? std::optional<T>(value.get<T>()) : std::nullopt;
}

NodeRow NodeOf(const Json& json) {
  NodeRow node;
  node.host = TextOf(json.at("host"));
  node.address = TextOf(json.at("address"));
  node.state = TextOf(json.at("state"));
  node.first_rank = NumberOf<int>(json.at("first_rank"));
  node.workers = json.at("workers").get<int>();
  node.step = NumberOf<std::int64_t>(json.at("step"));
  node.heard_ms = json.at("heard_ms_ago").get<double>();
  return node;
}

void TakeProgress(const Json& json, JobRow* job) {
  if (const Json& progress = json.at("progress"); !progress.is_null()) {
    job->progress =
        JobRow::Progress{progress.at("still_ms").get<double>(),
                         NumberOf<double>(progress.at("limit_ms")), TextOf(progress.at("hang"))};
  }
  if (const auto why = json.find("not_judged"); why != json.end() && !why->is_null()) {
    job->notes.not_judged = TextOf(why->at("why"));
  }
  if (const auto ranks = json.find("straggler_ranks"); ranks != json.end()) {
    for (const Json& rank : *ranks) job->notes.stragglers.push_back(rank.get<int>());
  }
  if (const Json& init = json.at("init"); !init.is_null()) {
    job->notes.init = TextOf(init.at("text"));
  }
  if (const Json& cause = json.at("last_root_cause"); !cause.is_null()) {
    job->cause = {TextOf(cause.at("description")), cause.at("generation").get<int>()};
  }
}

JobRow JobOf(const Json& json) {
  JobRow job;
  job.job = TextOf(json.at("job"));
  job.generation = json.at("generation").get<int>();
  job.state = TextOf(json.at("state"));
  job.reason = TextOf(json.at("reason"));
  job.since_ms = json.at("since_ms_ago").get<double>();
  job.min_nodes = json.at("min_nodes").get<std::int64_t>();
  job.max_nodes = json.at("max_nodes").get<std::int64_t>();
  job.world_size = json.at("world_size").get<int>();
  job.restarts = {json.at("restarts").get<std::int64_t>(),
                  json.at("max_restarts").get<std::int64_t>(),
                  json.at("restarts_left").get<std::int64_t>()};
  job.step = NumberOf<std::int64_t>(json.at("step"));
  job.steps_per_s = NumberOf<double>(json.at("steps_per_s"));
  job.checkpoint = NumberOf<std::int64_t>(json.at("checkpoint"));
  job.outcome = TextOf(json.at("outcome"));
  job.exit_code = NumberOf<int>(json.at("exit_code")).value_or(0);
  TakeProgress(json, &job);
  for (const Json& node : json.at("nodes")) job.nodes.push_back(NodeOf(node));
  job.spares = json.at("spares").size();
  return job;
}

}  // namespace

absl::StatusOr<Snapshot> ParseSnapshot(const std::string& json) {
  try {
    const Json all = Json::parse(json);
    Snapshot snapshot{TextOf(all.at("version")), all.at("uptime_ms").get<double>(), {}};
    for (const Json& job : all.at("jobs")) snapshot.jobs.push_back(JobOf(job));
    return snapshot;
  } catch (const std::exception& error) {  // from nlohmann, for a rendezvous of another version
    return absl::InternalError(absl::StrCat("the rendezvous answered something that is no status: ",
                                            Printable(error.what())));
  }
}

}  // namespace ddprun::top
