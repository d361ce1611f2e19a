#include "rendezvous/json/event_json.h"

#include "absl/strings/str_cat.h"
#include "rendezvous/json/dump.h"
#include "rendezvous/json/restart_times_json.h"
#include "rendezvous/json/restore_json.h"
#include "rendezvous/json/root_cause_json.h"
#include "rendezvous/stacks/stack_text.h"

namespace ddprun {
namespace {

// A number of 64 bits does not fit into every program's JSON.
std::string AgentText(AgentId agent_id) {
  return absl::StrCat(absl::Hex(agent_id.value, absl::kZeroPad16));
}

}  // namespace

std::string EventToJson(std::int64_t unix_ms, std::string_view job, std::string_view owner,
                        std::uint32_t requeue_number, const JobEvent& event) {
  using Kind = JobEvent::Kind;
  nlohmann::ordered_json json;
  json["time"] = IsoTime(unix_ms);
  json["job"] = job;
  if (!owner.empty()) json["owner"] = owner;
  json["epoch"] = requeue_number;
  json["generation"] = event.generation.value;
  json["event"] = ToString(event.kind);
  if (!event.host.empty()) json["host"] = event.host;
  if (event.agent_id != AgentId{}) json["agent"] = AgentText(event.agent_id);
  if (event.nodes != 0) json["nodes"] = event.nodes;
  if (event.workers != 0) json["workers"] = event.workers;
  if (event.kind == Kind::kRestarted) json["restarts"] = event.restarts;
  if (event.step) json["step"] = *event.step;
  if (event.failed_checkpoints != 0) json["failed_checkpoints"] = event.failed_checkpoints;
  if (event.restore) json["restore"] = ToJson(*event.restore);
  for (const JobEvent::Placed& node : event.placed) {
    json["placed"].push_back({{"host", node.host},
                              {"agent", AgentText(node.agent_id)},
                              {"first_rank", node.first_rank.value},
                              {"workers", node.workers}});
  }
  if (event.node_time_ms != 0) json["node_time"] = IsoTime(event.node_time_ms);
  if (event.times) json.update(ToJson(*event.times));
  if (event.outcome) {
    json["outcome"] = ToString(*event.outcome);
    json["exit_code"] = event.exit_code;
  }
  if (!event.reason.empty()) json["reason"] = event.reason;
  if (event.cause) json["cause"] = ToJson(*event.cause);
  if (event.stacks) json["stacks"] = ToJson(*event.stacks, "rank");
  return Dump(json, -1);
}

}  // namespace ddprun
