#include "launcher/report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "rendezvous/core/root_cause.h"

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

std::string Time(std::int64_t unix_ms) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromUnixMillis(unix_ms),
                          absl::UTCTimeZone());
}

const char* KindName(RootCause::Kind kind) {
  switch (kind) {
    case RootCause::Kind::kWorkerFailed:
      return "worker_failed";
    case RootCause::Kind::kWorkerLeftEarly:
      return "worker_left_early";
    case RootCause::Kind::kNodeLost:
      return "node_lost";
    case RootCause::Kind::kNodeLeft:
      return "node_left";
  }
  return "?";
}

// Why a worker that is no root cause failed all the same.
std::string WhyVictim(const WorkerFailure& victim, const RootCause& cause) {
  const std::string after =
      IsMembershipChange(cause)
          ? absl::StrCat("after ", cause.failure.host, " was gone")
          : absl::StrCat("after rank ", cause.failure.exit.rank.value, " had ended");
  return victim.exit.error_kind == "collective" ? "its collective failed " + after
                                                : "it failed " + after;
}

void AddWorker(const WorkerExited& exit, Json* json) {
  Json& to = *json;
  to["rank"] = exit.rank.value;
  to["local_rank"] = exit.local_rank.value;
  to["pid"] = exit.pid;
  to["exit_code"] = exit.status.signal == 0 ? Json(exit.status.code) : Json(nullptr);
  to["signal"] = exit.status.signal != 0 ? Json(SignalName(exit.status.signal)) : Json(nullptr);
  to["core_dumped"] = exit.status.core_dumped;
  to["oom_killed"] = exit.oom_killed;
  to["step"] = exit.step ? Json(*exit.step) : Json(nullptr);
  to["time"] = exit.ended_at_ms != 0 ? Json(Time(exit.ended_at_ms)) : Json(nullptr);
  to["error_kind"] = exit.error_kind;
  to["error"] = exit.error_text;
}

Json ToJson(const RootCause& cause) {
  Json json = {
      {"kind", KindName(cause.kind)},
      {"description", Describe(cause)},
      {"generation", cause.failure.generation.value},
      {"host", cause.failure.host},
      {"node_rank", cause.failure.node_rank.value},
  };
  if (IsMembershipChange(cause)) {
    json["reason"] = cause.reason;
  } else {
    AddWorker(cause.failure.exit, &json);
    json["stderr_tail"] = cause.failure.exit.stderr_tail;
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

}  // namespace

std::vector<std::string> DescribeVerdict(const Verdict& verdict, const ReportContext& context) {
  std::vector<std::string> lines;
  for (const RootCause& cause : verdict.earlier) {
    lines.push_back(
        absl::StrCat("generation ", cause.failure.generation.value, " ended: ", Describe(cause)));
  }
  if (verdict.outcome == "succeeded") {
    if (!verdict.earlier.empty()) {
      lines.push_back(absl::StrCat("job ", context.job, " succeeded after ", verdict.restarts_used,
                                   verdict.restarts_used == 1 ? " restart" : " restarts"));
    }
    return lines;
  }
  if (verdict.root_cause) {
    const RootCause& cause = *verdict.root_cause;
    const WorkerExited& exit = cause.failure.exit;
    lines.push_back(absl::StrCat(
        "root cause: ", Describe(cause), " (generation ", cause.failure.generation.value,
        exit.ended_at_ms != 0 ? ", at " + Time(exit.ended_at_ms) : "", ")"));
    if (!exit.stderr_tail.empty()) {
      lines.push_back("the last lines of its stderr:");
      for (const std::string& line : exit.stderr_tail) lines.push_back(absl::StrCat("    ", line));
    }
    if (!cause.victims.empty()) {
      lines.push_back(absl::StrCat(
          "victims, not the cause: ",
          absl::StrJoin(cause.victims, ", ", [](std::string* out, const WorkerFailure& victim) {
            absl::StrAppend(out, "rank ", victim.exit.rank.value, " on ", victim.host, " (",
                            victim.exit.status.Describe(), ")");
          })));
    }
  }
  lines.push_back(absl::StrCat("job ", context.job, " ", verdict.outcome, ": ", verdict.reason));
  lines.push_back(absl::StrCat(
      "exit code ", verdict.exit_code,
      context.run_dir.empty() ? ""
                              : absl::StrCat("; logs of ", context.host, " in ", context.run_dir)));
  return lines;
}

std::string VerdictToJson(const Verdict& verdict, const ReportContext& context) {
  Json json = {
      {"job", context.job},
      {"host", context.host},
      {"outcome", verdict.outcome},
      {"exit_code", verdict.exit_code},
      {"reason", verdict.reason},
      {"restarts", verdict.restarts_used},
      {"run_dir", context.run_dir},
      {"root_cause", verdict.root_cause ? ToJson(*verdict.root_cause) : Json(nullptr)},
      {"earlier_generations", Json::array()},
  };
  for (const RootCause& cause : verdict.earlier) {
    json["earlier_generations"].push_back(ToJson(cause));
  }
  // Workers may print anything: what is not UTF-8 is replaced.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun
