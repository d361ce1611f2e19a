#include "launcher/text/event_trace.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "absl/strings/str_cat.h"
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
// Limits, in case a line has nonsense.
constexpr std::int64_t kMostRanks = 256;  // with a thread each
constexpr std::int64_t kHighestRank = 1 << 24;

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

// The elements of an array of objects; none if it is something else.
std::vector<OrderedJson> ObjectsOf(const OrderedJson& json, const char* field) {
  std::vector<OrderedJson> objects;
  const auto found = json.find(field);
  if (found == json.end() || !found->is_array()) return objects;
  std::copy_if(found->begin(), found->end(), std::back_inserter(objects),
               [](const OrderedJson& element) { return element.is_object(); });
  return objects;
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
  Job& job = jobs_[TextOf(event, "job")];
  if (kind == "joined" && job.over) job = Job();
  AddOfJob(kind, event);
  if (!TextOf(event, "host").empty()) AddOfNode(kind, event);
  if (kind == "resumed") AddPhases(event);
  if (kind == "failed" || kind == "hung") AddCause(event);
  AddRanks(kind, event);
}

void EventTrace::AddOfJob(const std::string& kind, const Json& event) {
  const Track generations = TrackOf(event, "", kGenerations, "generations");
  const Track saves = TrackOf(event, "", kSaves, "saves");
  if (kind == "formed") {
    Begin(generations, absl::StrCat("forming ", GenerationText(event)),
          Details(event, {"nodes", "workers", "restore"}));
  } else if (kind == "started") {
    Begin(generations, GenerationText(event), Details(event, {"nodes", "workers"}));
    jobs_[TextOf(event, "job")].started = now_;
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
  const std::string name = NodeOf(event, event);
  const Track node = TrackOf(event, name, kNode, "node");
  if (kind == "joined") {
    Begin(node, "in the job", Details(event, {"workers"}));
  } else if (kind == "disconnected") {
    Begin(node, "lost contact");
  } else if (kind == "rejoined") {
    Begin(node, "in the job");
  } else if (kind == "lost" || kind == "left") {
    End(node, Details(event, {"reason"}));
    Mark(node, kind, Details(event, {"reason"}));
    ForgetNode(event);
  } else if (kind != "resumed" && kind != "failed") {
    Mark(node, kind, Details(event, {"reason", "step", "node_time"}));
  }
}

// The phases end with the node's first step.
void EventTrace::AddPhases(const Json& event) {
  const auto phases = event.find("phases_ms");
  if (phases == event.end() || !phases->is_object()) return;
  const Track track = TrackOf(event, NodeOf(event, event), kRestarts, "restarts");
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
  for (const Json& victim : ObjectsOf(*cause, "victims")) AddWorker(victim, event, "victim");
}

void EventTrace::AddWorker(const Json& worker, const Json& event, const char* what) {
  const std::int64_t rank = NumberOf(worker, "rank", -1);
  const std::string host = TextOf(worker, "host");
  if (rank < 0 || rank > kHighestRank || host.empty()) return;
  const Job& job = jobs_[TextOf(event, "job")];
  const auto of = std::find_if(job.ranks.begin(), job.ranks.end(), [&](const Ranks& ranks) {
    return rank >= ranks.first && rank - ranks.first < ranks.count;
  });
  const Track track = RankOf(event, of == job.ranks.end() ? host : of->node, rank);
  const Json details = Details(
      worker, {"description", "pid", "exit_code", "signal", "step", "error", "why", "stderr_tail"});
  if (TextOf(event, "event") == "failed") {
    if (!open_.contains(track) && job.started >= 0) {
      open_[track] = {GenerationText(event), job.started, Json::object()};
    }
    End(track, details);
  }
  Mark(track, what, details);
}

// Known only of a generation whose event `formed` places its nodes.
void EventTrace::AddRanks(const std::string& kind, const Json& event) {
  std::vector<Ranks>& ranks = jobs_[TextOf(event, "job")].ranks;
  const bool over = kind == "restarted" || kind == "finished" || kind == "superseded";
  if (over || kind == "formed") EndRanks(event);
  if (kind == "formed") {
    std::int64_t left = kMostRanks;
    for (const Json& node : ObjectsOf(event, "placed")) {
      const std::int64_t first = NumberOf(node, "first_rank", -1);
      const std::int64_t count = std::min(NumberOf(node, "workers", 0), left);
      if (first < 0 || first > kHighestRank || count <= 0) continue;
      left -= count;
      ranks.push_back({NodeOf(event, node), first, count});
    }
  } else if (kind == "started") {
    for (const Ranks& node : ranks) {
      for (std::int64_t rank = node.first; rank < node.first + node.count; ++rank) {
        Begin(RankOf(event, node.node, rank), GenerationText(event));
      }
    }
  }
  if (kind != "finished") return;
  // Nothing of the job goes on.
  const std::string job = TextOf(event, "job");
  for (auto of = processes_.lower_bound({job, ""});
       of != processes_.end() && of->first.first == job; ++of) {
    for (auto open = open_.lower_bound({of->second, 0});
         open != open_.end() && open->first.process == of->second;) {
      End((open++)->first);
    }
  }
  jobs_[job].over = true;
}

void EventTrace::EndRanks(const Json& event) {
  std::vector<Ranks>& ranks = jobs_[TextOf(event, "job")].ranks;
  for (const Ranks& node : ranks) {
    for (std::int64_t rank = node.first; rank < node.first + node.count; ++rank) {
      End(RankOf(event, node.node, rank));
    }
  }
  ranks.clear();
}

std::string EventTrace::NodeOf(const Json& event, const Json& node) {
  const std::string host = TextOf(node, "host");
  const std::string agent = TextOf(node, "agent");
  if (agent.empty()) return host;
  Job& job = jobs_[TextOf(event, "job")];
  std::string& name = job.agents[agent];
  if (!name.empty()) return name;
  name = host;
  for (int number = 2; !job.nodes.insert(name).second; ++number) {
    name = absl::StrCat(host, "#", number);
  }
  return name;
}

void EventTrace::ForgetNode(const Json& event) {
  Job& job = jobs_[TextOf(event, "job")];
  const auto known = job.agents.extract(TextOf(event, "agent"));
  if (!known.empty()) job.nodes.erase(known.mapped());
}

EventTrace::Track EventTrace::RankOf(const Json& event, const std::string& node,
                                     std::int64_t rank) {
  return TrackOf(event, node, kFirstRank + static_cast<int>(rank), absl::StrCat("rank ", rank));
}

int EventTrace::ProcessOf(const std::string& job, const std::string& node) {
  const auto [found, is_new] =
      processes_.try_emplace({job, node}, static_cast<int>(processes_.size()) + 1);
  if (is_new) {
    Name("process_name", {found->second, 0},
         node.empty() ? NameOfJob(job) : absl::StrCat(node, " (", NameOfJob(job), ")"));
  }
  return found->second;
}

EventTrace::Track EventTrace::TrackOf(const Json& event, const std::string& node, int thread,
                                      const std::string& name) {
  const Track track{ProcessOf(TextOf(event, "job"), node), thread};
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

std::string EventTrace::Finish(absl::Time now) {
  now_ = std::max(now_, absl::ToUnixMicros(now));
  while (!open_.empty()) End(open_.begin()->first);
  const Json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::exchange(events_, {})}};
  return Dump(trace, -1);
}

}  // namespace ddprun
