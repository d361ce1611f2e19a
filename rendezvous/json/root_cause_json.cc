#include "rendezvous/json/root_cause_json.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/stacks/stack_text.h"

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

// Why a victim failed.
std::string WhyVictim(const WorkerFailure& victim, const RootCause& cause) {
  const std::string after =
      IsMembershipChange(cause)
          ? absl::StrCat("after ", cause.failure.host, " was gone")
          : absl::StrCat("after rank ", cause.failure.exit.rank.value, " had ended");
  return victim.exit.error_kind == "collective" ? "its collective failed " + after
                                                : "it failed " + after;
}

// `ended`: the worker ended by itself; false for a worker that hung.
void AddWorker(const WorkerExited& exit, Json* json, bool ended = true) {
  Json& to = *json;
  to["rank"] = exit.rank.value;
  to["local_rank"] = exit.local_rank.value;
  to["pid"] = exit.pid;
  to["exit_code"] = ended && exit.status.signal == 0 ? Json(exit.status.code) : Json(nullptr);
  to["signal"] = exit.status.signal != 0 ? Json(SignalName(exit.status.signal)) : Json(nullptr);
  to["core_dumped"] = exit.status.core_dumped;
  to["oom_killed"] = exit.oom_killed;
  to["step"] = exit.step ? Json(*exit.step) : Json(nullptr);
  to["time"] = exit.ended_at_ms != 0 ? Json(IsoTime(exit.ended_at_ms)) : Json(nullptr);
  to["error_kind"] = exit.error_kind;
  to["error"] = exit.error_text;
}

}  // namespace

Json ToJson(const RootCause& cause) {
  Json json = {
      {"kind", NameOf(cause.kind)},
      {"description", Describe(cause)},
      {"generation", cause.failure.generation.value},
      {"host", cause.failure.host},
      {"node_rank", cause.failure.node_rank.value},
  };
  if (IsMembershipChange(cause)) {
    json["reason"] = cause.reason;
  } else {
    AddWorker(cause.failure.exit, &json, cause.kind != RootCause::Kind::kHung);
    json["stderr_tail"] = cause.failure.exit.stderr_tail;
    if (cause.kind == RootCause::Kind::kHung) {
      json["reason"] = cause.reason;
      json["phase"] = cause.phase.empty() ? "training" : cause.phase;
      json["still_s"] = std::chrono::duration<double>(cause.still).count();
      json["frames"] = Json::array();
      for (const StackFrame& frame : cause.frames) json["frames"].push_back(ToJson(frame));
    }
  }
  json["victims"] = Json::array();
  for (const WorkerFailure& victim : cause.victims) {
    Json entry = {{"host", victim.host}, {"node_rank", victim.node_rank.value}};
    AddWorker(victim.exit, &entry);
    entry["why"] = WhyVictim(victim, cause);
    json["victims"].push_back(std::move(entry));
  }
  return json;
}

std::string IsoTime(std::int64_t unix_ms) {
  // absl::FormatTime takes three times as long, and each event of a large job has a time.
  constexpr std::int64_t kLast = 253'402'300'799'999;  // in the year 9999; agents send any number
  const std::chrono::sys_time<std::chrono::milliseconds> time{
      std::chrono::milliseconds(std::clamp<std::int64_t>(unix_ms, 0, kLast))};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  const auto two = [](auto number) { return absl::Dec(number, absl::kZeroPad2); };
  return absl::StrCat(absl::Dec(static_cast<int>(date.year()), absl::kZeroPad4), "-",
                      two(static_cast<unsigned>(date.month())), "-",
                      two(static_cast<unsigned>(date.day())), "T", two(clock.hours().count()), ":",
                      two(clock.minutes().count()), ":", two(clock.seconds().count()), ".",
                      absl::Dec(clock.subseconds().count(), absl::kZeroPad3), "Z");
}

}  // namespace ddprun
