#include "rendezvous/json/event_json.h"

#include <algorithm>
#include <utility>

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

// Appends "name":value to the text of an object. It makes no DOM, because each Join is an event,
// and thousands of nodes may join at once.
class LineWriter {
 public:
  void Text(std::string_view name, std::string_view text) {
    const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
      return c >= ' ' && c <= '~' && c != '"' && c != '\\';
    });
    if (!plain) return Json(name, nlohmann::ordered_json(text));
    Name(name);
    line_.append("\"").append(text).append("\"");
  }
  void Number(std::string_view name, std::int64_t number) {
    Name(name);
    absl::StrAppend(&line_, number);
  }
  void Json(std::string_view name, const nlohmann::ordered_json& json) {
    Name(name);
    line_.append(Dump(json, -1));
  }

  std::string Take() { return std::move(line_.append("}")); }

 private:
  void Name(std::string_view name) {
    line_.append(line_.empty() ? "{\"" : ",\"").append(name).append("\":");
  }

  std::string line_;
};

}  // namespace

std::string EventToJson(std::int64_t unix_ms, std::string_view job, std::string_view owner,
                        std::uint32_t requeue_number, const JobEvent& event) {
  using Kind = JobEvent::Kind;
  LineWriter line;
  line.Text("time", IsoTime(unix_ms));
  line.Text("job", job);
  if (!owner.empty()) line.Text("owner", owner);
  line.Number("epoch", requeue_number);
  // A restart is measured by its node, which says the generation.
  const auto generation = event.times ? event.times->generation : event.generation;
  line.Number("generation", generation.value);
  line.Text("event", ToString(event.kind));
  if (!event.host.empty()) line.Text("host", event.host);
  if (event.agent_id != AgentId{}) line.Text("agent", AgentText(event.agent_id));
  if (event.nodes != 0) line.Number("nodes", event.nodes);
  if (event.workers != 0) line.Number("workers", event.workers);
  if (event.kind == Kind::kRestarted) line.Number("restarts", event.restarts);
  if (event.step) line.Number("step", *event.step);
  if (event.failed_checkpoints != 0) line.Number("failed_checkpoints", event.failed_checkpoints);
  if (event.restore) line.Json("restore", ToJson(*event.restore));
  nlohmann::ordered_json placed;
  for (const JobEvent::Placed& node : event.placed) {
    placed.push_back({{"host", node.host},
                      {"agent", AgentText(node.agent_id)},
                      {"first_rank", node.first_rank.value},
                      {"workers", node.workers}});
  }
  if (!placed.empty()) line.Json("placed", placed);
  if (event.node_time_ms != 0) line.Text("node_time", IsoTime(event.node_time_ms));
  if (event.times) {
    const auto times = ToJson(*event.times);
    for (const auto& [name, value] : times.items()) {
      if (name != "generation") line.Json(name, value);
    }
  }
  if (event.outcome) {
    line.Text("outcome", ToString(*event.outcome));
    line.Number("exit_code", event.exit_code);
  }
  if (!event.reason.empty()) line.Text("reason", event.reason);
  if (event.cause) line.Json("cause", ToJson(*event.cause));
  if (event.stacks) line.Json("stacks", ToJson(*event.stacks, "rank"));
  return line.Take();
}

}  // namespace ddprun
