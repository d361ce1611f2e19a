#include "rendezvous/http/page/page_json.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "rendezvous/json/root_cause_json.h"

namespace ddprun::http {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kSparkPoints = 60;

std::int64_t Milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

Json OrNull(const std::optional<std::int64_t>& number) {
  return number ? Json(*number) : Json(nullptr);
}

// Three decimal places are enough for a graph.
double Rounded(double per_second) { return std::round(per_second * 1000) / 1000; }

Json RateOf(const JobStatus& job) {
  const auto& rate = job.measured.steps_per_second;
  return rate ? Json(Rounded(*rate)) : Json(nullptr);
}

Json SparkOf(const StepRates& rates) {
  Json spark = Json::array();
  const auto& points = rates.points();
  for (std::size_t at = points.size() - std::min(points.size(), kSparkPoints); at < points.size();
       ++at) {
    spark.push_back(Rounded(points[at].per_second));
  }
  return spark;
}

Json ProgressOf(const JobStatus& job) {
  if (!job.progress) return nullptr;
  const auto& limit = job.progress->limit;
  return {{"still_ms", Milliseconds(job.progress->still)},
          {"limit_ms", limit ? Json(Milliseconds(*limit)) : Json(nullptr)},
          {"hang", job.progress->hang.empty() ? Json(nullptr) : Json(job.progress->hang)}};
}

Json WhyNotJudged(const JobStatus& job) {
  return job.not_judged ? Json{{"why", job.not_judged->why}} : Json(nullptr);
}

Json NodesAsColumns(const std::vector<NodeStatus>& nodes) {
  Json hosts = Json::array();
  Json states = Json::array();
  Json names = Json::array();
  Json first_ranks = Json::array();
  Json workers = Json::array();
  Json steps = Json::array();
  Json heard = Json::array();
  std::map<std::string, std::size_t> numbers;
  for (const NodeStatus& node : nodes) {
    const auto [number, is_new] = numbers.try_emplace(node.state, numbers.size());
    if (is_new) names.push_back(node.state);
    const bool ranked = node.rank.value >= 0;
    hosts.push_back(node.host);
    states.push_back(number->second);
    first_ranks.push_back(ranked ? Json(node.first_rank.value) : Json(nullptr));
    workers.push_back(node.workers);
    steps.push_back(OrNull(node.step));
    heard.push_back(Milliseconds(node.heard_ago));
  }
  return {{"hosts", std::move(hosts)},       {"states", std::move(states)},
          {"state_names", std::move(names)}, {"first_ranks", std::move(first_ranks)},
          {"workers", std::move(workers)},   {"steps", std::move(steps)},
          {"heard_ms_ago", std::move(heard)}};
}

}  // namespace

Json DaemonJson(const DaemonStatus& daemon) {
  return {{"version", daemon.version},
          {"uptime_ms", Milliseconds(daemon.uptime)},
          {"sessions", daemon.sessions}};
}

Json ListedJob(const JobStatus& job, int nodes, const JobPast& past) {
  return {{"job", job.job},
          {"epoch", job.requeue_number},
          {"generation", job.generation.value},
          {"state", ToString(job.state)},
          {"reason", job.reason},
          {"since_ms_ago", Milliseconds(job.since)},
          {"nodes", nodes},
          {"spares", job.spares},
          {"world_size", job.world_size},
          {"restarts", job.restarts_used},
          {"max_restarts", job.spec.max_restarts},
          {"step", OrNull(job.step)},
          {"steps_per_s", RateOf(job)},
          {"checkpoint", OrNull(job.checkpoint)},
          {"progress", ProgressOf(job)},
          {"not_judged", WhyNotJudged(job)},
          {"outcome", job.finished ? Json(ToString(job.finished->outcome)) : Json(nullptr)},
          {"spark", SparkOf(past.rates)}};
}

Json WholeJob(JobStatus job, const JobPast& past, PageTime time, bool redacted) {
  const std::vector<NodeStatus> nodes = std::exchange(job.nodes, {});
  Json json = ToJson(job, time.unix_ms);
  json["time"] = IsoTime(time.unix_ms);
  json["spares"] = Json::array();
  for (const NodeStatus& node : nodes) {
    if (node.spare) json["spares"].push_back(node.host);
  }
  json["steps_per_s"] = RateOf(job);
  Json& spark = json["spark"] = Json::array();
  for (const StepRates::Point& point : past.rates.points()) {
    spark.push_back({Milliseconds(time.now - point.at), Rounded(point.per_second)});
  }
  json["generations"] = past.generations.ToJson(time.unix_ms, redacted);
  json["nodes"] = NodesAsColumns(nodes);
  const auto& hang = past.generations.last_hang();
  json["hang_generation"] = hang ? Json(hang->generation) : Json(nullptr);
  json["hang_stacks"] = hang && !redacted ? Json(hang->stacks) : Json(nullptr);
  return json;
}

Json WithoutAges(Json json) {
  static constexpr const char* kAges[] = {"time",
                                          "since",
                                          "uptime_ms",
                                          "since_ms_ago",
                                          "still_ms",
                                          "spark",
                                          "formed_ms_ago",
                                          "started_ms_ago",
                                          "saving_ms_ago",
                                          "stopping_ms_ago",
                                          "ended_ms_ago",
                                          "heard_ms_ago",
                                          "checkpoint_ms_ago",
                                          "snapshot_ms_ago",
                                          "steps_per_s",
                                          "wall_ms",
                                          "without_checkpoint_ms",
                                          "lasts_ms"};
  if (json.is_object()) {
    for (const char* age : kAges) json.erase(age);
  }
  if (json.is_structured()) {
    for (Json& member : json) {
      if (member.is_structured()) member = WithoutAges(std::move(member));
    }
  }
  return json;
}

}  // namespace ddprun::http
