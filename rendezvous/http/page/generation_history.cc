#include "rendezvous/http/page/generation_history.h"

#include <utility>

#include "rendezvous/http/page/redaction.h"
#include "rendezvous/http/page/stacks_text.h"

namespace ddprun::http {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t NumberOf(const Json& line, const char* name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

std::string TextOf(const Json& line, const char* name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Json Ago(const std::optional<std::int64_t>& unix_ms, std::int64_t now_unix_ms) {
  return unix_ms ? Json(now_unix_ms - *unix_ms) : Json(nullptr);
}

}  // namespace

void GenerationHistory::OnLine(const Json& line, std::int64_t unix_ms) {
  const std::string event = TextOf(line, "event");
  if (event == "hung") {
    last_hang_.reset();
    if (const auto stacks = line.find("stacks"); stacks != line.end()) {
      last_hang_ = {NumberOf(line, "generation"), StacksText(*stacks)};
    }
  }
  const std::int64_t requeue_number = NumberOf(line, "epoch");
  const std::int64_t generation = NumberOf(line, "generation");
  const bool known = !entries_.empty() && entries_.back().requeue_number == requeue_number &&
                     entries_.back().generation >= generation;
  if (event != "formed" && !known) return;
  Entry& entry = EntryOf(requeue_number, generation);
  Note(event, line, unix_ms, &entry);
}

GenerationHistory::Entry& GenerationHistory::EntryOf(std::int64_t requeue_number,
                                                     std::int64_t generation) {
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->requeue_number == requeue_number && entry->generation == generation) return *entry;
  }
  entries_.push_back({requeue_number, generation});
  if (entries_.size() > kKept) entries_.pop_front();
  return entries_.back();
}

void GenerationHistory::Note(const std::string& event, const Json& line, std::int64_t unix_ms,
                             Entry* entry) {
  if (event == "formed") {
    // A new job of the same name counts its generations from 0 again.
    if (entry->formed_ms) {
      entries_.clear();
      last_hang_.reset();
      entry = &EntryOf(NumberOf(line, "epoch"), NumberOf(line, "generation"));
    }
    entry->formed_ms = unix_ms;
  } else if (event == "started") {
    entry->started_ms = unix_ms;
  } else if (event == "saving") {
    entry->saving_ms = unix_ms;
  } else if (event == "stopping") {
    entry->stopping_ms = unix_ms;
    if (entry->why.empty()) entry->why = TextOf(line, "reason");
  } else if (event == "failed") {
    if (const auto cause = line.find("cause"); cause != line.end()) {
      entry->why = TextOf(*cause, "description");
    }
  } else if (event == "restarted" || event == "finished" || event == "superseded") {
    entry->ended_ms = unix_ms;
    if (entry->why.empty()) entry->why = TextOf(line, "reason");
  } else if (event == "resumed") {
    const auto total = line.find("total_ms");
    const auto phases = line.find("phases_ms");
    if (total == line.end() || !total->is_number() || phases == line.end()) return;
    if (total->get<double>() < entry->recovery_ms) return;
    entry->recovery_ms = total->get<double>();
    entry->phases_ms = *phases;
  }
}

Json GenerationHistory::ToJson(std::int64_t now_unix_ms, bool redacted) const {
  Json json = Json::array();
  for (const Entry& entry : entries_) {
    json.push_back({{"generation", entry.generation},
                    {"epoch", entry.requeue_number},
                    {"formed_ms_ago", Ago(entry.formed_ms, now_unix_ms)},
                    {"started_ms_ago", Ago(entry.started_ms, now_unix_ms)},
                    {"saving_ms_ago", Ago(entry.saving_ms, now_unix_ms)},
                    {"stopping_ms_ago", Ago(entry.stopping_ms, now_unix_ms)},
                    {"ended_ms_ago", Ago(entry.ended_ms, now_unix_ms)},
                    {"why", redacted ? std::string() : entry.why},
                    {"phases_ms", redacted                    ? RedactedPhases(entry.phases_ms)
                                  : entry.phases_ms.is_null() ? Json::object()
                                                              : entry.phases_ms}});
  }
  return json;
}

}  // namespace ddprun::http
