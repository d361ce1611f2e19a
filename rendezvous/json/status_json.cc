#include "rendezvous/json/status_json.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "rendezvous/json/dump.h"
#include "rendezvous/json/failed_checkpoints_json.h"
#include "rendezvous/json/restore_json.h"
#include "rendezvous/json/root_cause_json.h"

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t Milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

Json OrNull(const std::optional<std::int64_t>& number) {
  return number ? Json(*number) : Json(nullptr);
}

const char* NameOf(ProcessState state) {
  switch (state) {
    case ProcessState::kRunnable:
      return "runnable";
    case ProcessState::kStopped:
      return "stopped";
    case ProcessState::kTraced:
      return "traced";
    case ProcessState::kDiskWait:
      return "disk_wait";
  }
  return "runnable";
}

Json ToJson(const StuckProcess& process) {
  return {{"rank", process.rank ? Json(process.rank->value) : Json(nullptr)},
          {"pid", process.pid},
          {"state", NameOf(process.state)},
          {"waits_for", process.waits_for},
          {"stuck_ms", Milliseconds(process.stuck)}};
}

Json ToJson(const JobStatus::NotJudged& not_judged) {
  Json json = {{"why", not_judged.why}, {"excuse", nullptr}};
  if (const auto& excuse = not_judged.excuse) {
    json["excuse"] = {{"rank", excuse->rank ? Json(excuse->rank->value) : Json(nullptr)},
                      {"host", excuse->host},
                      {"pid", excuse->pid > 0 ? Json(excuse->pid) : Json(nullptr)},
                      {"why", excuse->why},
                      {"lasts_ms", Milliseconds(excuse->lasts)}};
  }
  return json;
}

Json ToJson(const NodeStatus& node) {
  Json json = {{"host", node.host}, {"address", node.address}, {"state", node.state}};
  const bool ranked = node.rank.value >= 0;
  json["node_rank"] = ranked ? Json(node.rank.value) : Json(nullptr);
  json["first_rank"] = ranked ? Json(node.first_rank.value) : Json(nullptr);
  json["workers"] = node.workers;
  json["step"] = OrNull(node.step);
  json["newest_state"] = node.newest_state ? ToJson(*node.newest_state) : Json(nullptr);
  json["heard_ms_ago"] = Milliseconds(node.heard_ago);
  json["still_ms"] = node.still ? Json(Milliseconds(*node.still)) : Json(nullptr);
  json["cpu_ms"] = node.usage.cpu.count();
  json["resident_bytes"] = node.usage.resident_bytes;
  json["heartbeat_us"] =
      std::chrono::duration_cast<std::chrono::microseconds>(node.usage.round_trip).count();
  json["stuck"] = Json::array();
  for (const StuckProcess& process : node.stuck) json["stuck"].push_back(ToJson(process));
  return json;
}

Json OrNull(const std::optional<Duration>& duration) {
  return duration ? Json(Milliseconds(*duration)) : Json(nullptr);
}

void AddTo(Json* json, const JobStatus::Measured& measured) {
  const auto& rate = measured.steps_per_second;
  (*json)["steps_per_s"] = rate ? Json(*rate) : Json(nullptr);
  (*json)["checkpoint_ms_ago"] = OrNull(measured.checkpoint_age);
  (*json)["without_checkpoint_ms"] = OrNull(measured.without_checkpoint);
  (*json)["snapshot_ms_ago"] = OrNull(measured.snapshot_age);
  (*json)["stragglers"] = measured.stragglers ? Json(*measured.stragglers) : Json(nullptr);
  (*json)["straggler_ranks"] = Json::array();
  for (const Rank rank : measured.straggler_ranks) (*json)["straggler_ranks"].push_back(rank.value);
  (*json)["nodes_lost"] = measured.counters.nodes_lost;
  (*json)["restarts_by_cause"] = Json::object();
  for (const auto& [cause, count] : measured.counters.restarts) {
    (*json)["restarts_by_cause"][std::string(cause)] = count;
  }
}

// Terms are strings: many JSON readers lose the last digits of 64-bit numbers.
Json ToJson(const LeadershipStatus& leadership) {
  return {{"role", leadership.leads ? "leads" : "stands_by"},
          {"term", std::to_string(leadership.term.revision)},
          {"cluster", std::to_string(leadership.term.cluster)},
          {"leader", leadership.leader},
          {"valid_ms", Milliseconds(leadership.valid_for)},
          {"changes", leadership.changes}};
}

}  // namespace

Json ToJson(const JobStatus& job, std::int64_t now_unix_ms) {
  Json json = {
      {"job", job.job},
      {"epoch", job.requeue_number},
      {"generation", job.generation.value},
      {"state", ToString(job.state)},
      {"reason", job.reason},
      {"since", IsoTime(now_unix_ms - Milliseconds(job.since))},
      {"since_ms_ago", Milliseconds(job.since)},
      {"min_nodes", job.spec.min_nodes},
      {"max_nodes", job.spec.max_nodes},
      {"world_size", job.world_size},
      {"restarts", job.restarts_used},
      {"restarts_left", job.restarts_left},
      {"max_restarts", job.spec.max_restarts},
      {"step", OrNull(job.step)},
      {"checkpoint", OrNull(job.checkpoint)},
  };
  AddTo(&json, job.failed_checkpoints);
  AddTo(&json, job.measured);
  json["restore"] = job.restore ? ToJson(*job.restore) : Json(nullptr);
  json["progress"] = nullptr;
  if (job.progress) {
    const auto& limit = job.progress->limit;
    json["progress"] = {
        {"still_ms", Milliseconds(job.progress->still)},
        {"limit_ms", limit ? Json(Milliseconds(*limit)) : Json(nullptr)},
        {"hang", job.progress->hang.empty() ? Json(nullptr) : Json(job.progress->hang)},
        {"wall_ms", Milliseconds(job.progress->wall)}};
  }
  json["not_judged"] = job.not_judged ? ToJson(*job.not_judged) : Json(nullptr);
  json["init"] = nullptr;
  if (job.arrivals) {
    json["init"] = {{"arrived", job.arrivals->arrived},
                    {"missing", Json::array()},
                    {"text", Describe(*job.arrivals, job.world_size)}};
    for (const auto& missing : job.arrivals->missing) {
      json["init"]["missing"].push_back({{"rank", missing.rank.value}, {"host", missing.host}});
    }
  }
  json["outcome"] = job.finished ? Json(ToString(job.finished->outcome)) : Json(nullptr);
  json["exit_code"] = job.finished ? Json(job.finished->exit_code) : Json(nullptr);
  std::optional<RootCause> cause = job.last_cause;
  if (job.finished && job.finished->root_cause) cause = job.finished->root_cause;
  json["last_root_cause"] = cause ? ToJson(*cause) : Json(nullptr);
  json["spares"] = Json::array();
  json["nodes"] = Json::array();
  for (const NodeStatus& node : job.nodes) {
    if (node.spare) json["spares"].push_back(node.host);
    json["nodes"].push_back(ToJson(node));
  }
  return json;
}

std::string StatusToJson(const DaemonStatus& daemon, const std::vector<JobStatus>& jobs,
                         std::int64_t now_unix_ms) {
  Json json = {
      {"time", IsoTime(now_unix_ms)},
      {"version", daemon.version},
      {"uptime_ms", Milliseconds(daemon.uptime)},
      {"sessions", daemon.sessions},
      {"jobs_begun", daemon.jobs_begun},
      {"descriptors", daemon.descriptors},
      {"descriptor_limit", daemon.descriptor_limit},
      {"event_lines_dropped", daemon.event_lines_dropped},
      {"leadership", daemon.leadership ? ToJson(*daemon.leadership) : Json(nullptr)},
      {"refused", Json::object()},
      {"jobs", Json::array()},
  };
  for (const auto& [reason, count] : daemon.refused) json["refused"][reason] = count;
  for (const JobStatus& job : jobs) json["jobs"].push_back(ToJson(job, now_unix_ms));
  return Dump(json, -1);
}

}  // namespace ddprun
