#include "launcher/text/event_trace.h"

#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "rendezvous/json/dump.h"
#include "worker/contract/job_name.h"

namespace ddprun {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The threads of a job's process, and the thread of a node that belongs to no rank.
constexpr int kGenerations = 1;
constexpr int kSaves = 2;
constexpr int kNode = 1;
constexpr int kRestarts = 2;
constexpr int kFirstRank = 10;

std::string TextOf(const OrderedJson& json, const char* field) {
  const auto found = json.find(field);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::int64_t NumberOf(const OrderedJson& json, const char* field, std::int64_t otherwise) {
  const auto found = json.find(field);
  return found != json.end() && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
}

// The event's fields with these names, if present.
OrderedJson Details(const OrderedJson& event, std::initializer_list<const char*> fields) {
  OrderedJson details = OrderedJson::object();
  for (const char* const field : fields) {
    if (event.contains(field)) details[field] = event[field];
  }
  return details;
}

std::string GenerationText(const OrderedJson& event) {
  return absl::StrCat("generation ", NumberOf(event, "generation", -1));
}

}  // namespace

void EventTrace::Add(std::string_view line) {
  const Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!event.is_object()) return;
  const std::string kind = TextOf(event, "event");
  absl::Time time;
  std::string error;
  if (kind.empty() || TextOf(event, "job").empty() ||
      !absl::ParseTime(absl::RFC3339_full, TextOf(event, "time"), &time, &error)) {
    return;
  }
  now_ = absl::ToUnixMicros(time);
  AddOfJob(kind, event);
  if (!TextOf(event, "host").empty()) AddOfNode(kind, event);
  if (kind == "resumed") AddPhases(event);
  if (kind == "failed" || kind == "hung") AddCause(event);
}

void EventTrace::AddOfJob(const std::string& kind, const Json& event) {
  const Track generations = TrackOf(event, "", kGenerations, "generations");
  const Track saves = TrackOf(event, "", kSaves, "saves");
  if (kind == "formed") {
    Begin(generations, absl::StrCat("forming ", GenerationText(event)),
          Details(event, {"nodes", "workers", "restore"}));
  } else if (kind == "started") {
    Begin(generations, GenerationText(event), Details(event, {"nodes", "workers"}));
    started_[TextOf(event, "job")] = now_;
  } else if (kind == "saving") {
    Begin(saves, "saving", Details(event, {"reason"}));
  } else if (kind == "checkpointed") {
    End(saves, Details(event, {"step"}));
    Mark(saves, absl::StrCat("checkpoint of step ", NumberOf(event, "step", 0)),
         Details(event, {"step"}));
  } else if (kind == "stopping") {
    End(saves);
    Begin(generations, absl::StrCat("stopping ", GenerationText(event)),
          Details(event, {"reason"}));
  } else if (kind == "failed" || kind == "hung") {
    Mark(generations, kind, Details(event, {"reason", "cause"}));
    if (kind == "failed") End(generations);
  } else if (kind == "restarted" || kind == "finished" || kind == "superseded" ||
             kind == "recovered") {
    if (kind != "recovered") End(generations);
    if (kind == "finished") End(saves);
    Mark(generations, kind, Details(event, {"reason", "restarts", "outcome", "exit_code"}));
  }
}

void EventTrace::AddOfNode(const std::string& kind, const Json& event) {
  const Track node = TrackOf(event, TextOf(event, "host"), kNode, "node");
  if (kind == "joined") {
    Begin(node, "in the job", Details(event, {"workers"}));
  } else if (kind == "disconnected") {
    Begin(node, "lost contact");
  } else if (kind == "rejoined") {
    Begin(node, "in the job");
  } else if (kind == "lost" || kind == "left") {
    End(node, Details(event, {"reason"}));
    Mark(node, kind, Details(event, {"reason"}));
  } else if (kind != "resumed" && kind != "failed") {
    Mark(node, kind, Details(event, {"reason", "step", "node_time"}));
  }
}

// The phases end with the node's first step.
void EventTrace::AddPhases(const Json& event) {
  const auto phases = event.find("phases_ms");
  if (phases == event.end() || !phases->is_object()) return;
  const Track track = TrackOf(event, TextOf(event, "host"), kRestarts, "restarts");
  std::int64_t until = now_;
  for (auto phase = phases->rbegin(); phase != phases->rend(); ++phase) {
    if (!phase->is_number()) continue;
    const std::int64_t since = until - static_cast<std::int64_t>(phase->get<double>() * 1000);
    AddSlice(track, {phase.key(), since, Json::object()}, until);
    until = since;
  }
}

void EventTrace::AddCause(const Json& event) {
  const auto cause = event.find("cause");
  if (cause == event.end() || !cause->is_object()) return;
  AddWorker(*cause, event, TextOf(event, "event").c_str());
  const auto victims = cause->find("victims");
  if (victims == cause->end() || !victims->is_array()) return;
  for (const Json& victim : *victims) {
    if (victim.is_object()) AddWorker(victim, event, "victim");
  }
}

void EventTrace::AddWorker(const Json& worker, const Json& event, const char* what) {
  const std::int64_t rank = NumberOf(worker, "rank", -1);
  const std::string host = TextOf(worker, "host");
  if (rank < 0 || host.empty()) return;
  const Track track =
      TrackOf(event, host, kFirstRank + static_cast<int>(rank), absl::StrCat("rank ", rank));
  const Json details = Details(
      worker, {"description", "pid", "exit_code", "signal", "step", "error", "why", "stderr_tail"});
  const auto since = started_.find(TextOf(event, "job"));
  if (since != started_.end() && TextOf(event, "event") == "failed") {
    AddSlice(track, {GenerationText(event), since->second, details}, now_);
  }
  Mark(track, what, details);
}

int EventTrace::ProcessOf(const std::string& job, const std::string& host) {
  const auto [found, is_new] =
      processes_.try_emplace({job, host}, static_cast<int>(processes_.size()) + 1);
  if (is_new) {
    Name("process_name", {found->second, 0},
         host.empty() ? NameOfJob(job) : absl::StrCat(host, " (", NameOfJob(job), ")"));
  }
  return found->second;
}

EventTrace::Track EventTrace::TrackOf(const Json& event, const std::string& host, int thread,
                                      const std::string& name) {
  const Track track{ProcessOf(TextOf(event, "job"), host), thread};
  if (threads_.try_emplace(track, name).second) Name("thread_name", track, name);
  return track;
}

void EventTrace::Name(const char* what, Track track, const std::string& name) {
  events_.push_back({{"name", what},
                     {"ph", "M"},
                     {"pid", track.process},
                     {"tid", track.thread},
                     {"args", {{"name", name}}}});
}

void EventTrace::Begin(Track track, std::string name, Json details) {
  End(track);
  open_[track] = {std::move(name), now_, std::move(details)};
}

void EventTrace::End(Track track, Json details) {
  const auto open = open_.extract(track);
  if (open.empty()) return;
  Slice slice = open.mapped();
  slice.details.update(details);
  AddSlice(track, slice, now_);
}

void EventTrace::AddSlice(Track track, const Slice& slice, std::int64_t until) {
  events_.push_back({{"name", slice.name},
                     {"ph", "X"},
                     {"ts", slice.since},
                     {"dur", until - slice.since},
                     {"pid", track.process},
                     {"tid", track.thread},
                     {"args", slice.details}});
}

void EventTrace::Mark(Track track, const std::string& name, Json details) {
  events_.push_back({{"name", name},
                     {"ph", "i"},
                     {"s", "t"},
                     {"ts", now_},
                     {"pid", track.process},
                     {"tid", track.thread},
                     {"args", std::move(details)}});
}

std::string EventTrace::Finish() {
  while (!open_.empty()) End(open_.begin()->first);
  const Json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::exchange(events_, {})}};
  return Dump(trace, -1);
}

}  // namespace ddprun
