#include "launcher/report.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/os/file_util.h"
#include "launcher/text/error_file.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/json/dump.h"
#include "rendezvous/json/failed_checkpoints_json.h"
#include "rendezvous/json/restart_times_json.h"
#include "rendezvous/json/restore_json.h"
#include "rendezvous/json/root_cause_json.h"
#include "rendezvous/stacks/stack_text.h"
#include "worker/contract/job_name.h"

namespace ddprun {
namespace {

using OrderedJson = nlohmann::ordered_json;

// How much an outcome says about the whole job, in a report that all nodes share.
constexpr int kNothing = 0;
constexpr int kOfANode = 1;
constexpr int kPreempted = 2;  // of the job, but reported by any agent that hears of it
constexpr int kOfTheJob = 3;

int Weight(Outcome outcome) {
  switch (outcome) {
    case Outcome::kLeft:
    case Outcome::kRefused:
    case Outcome::kUnreachable:
      return kOfANode;
    case Outcome::kPreempted:
      return kPreempted;
    case Outcome::kSucceeded:
    case Outcome::kFailed:
    case Outcome::kStateUnreadable:
      break;
  }
  return kOfTheJob;
}

// The weight of the existing report, if it is of this job and requeue number.
int WeightIn(const std::string& path, const ReportContext& context) {
  std::ifstream file(path);
  const OrderedJson json = OrderedJson::parse(file, nullptr, /*allow_exceptions=*/false);
  const bool ours = json.is_object() &&
                    json.value("job", OrderedJson()) == OrderedJson(context.job) &&
                    json.value("epoch", OrderedJson()) == OrderedJson(context.requeue_number);
  const OrderedJson outcome = ours ? json.value("outcome", OrderedJson()) : OrderedJson();
  if (!outcome.is_string()) return kNothing;
  const auto known = ParseOutcome(outcome.get<std::string>());
  return known ? Weight(*known) : kOfTheJob;  // an outcome of a later version
}

}  // namespace

std::vector<std::string> DescribeVerdict(const Verdict& verdict, const ReportContext& context) {
  std::vector<std::string> lines;
  for (const RootCause& cause : verdict.earlier) {
    lines.push_back(
        absl::StrCat("generation ", cause.failure.generation.value, " ended: ", Describe(cause)));
  }
  if (!verdict.excluded.empty()) {
    lines.push_back(absl::StrCat("left out of the job: ", absl::StrJoin(verdict.excluded, ", ")));
  }
  if (verdict.outcome == Outcome::kSucceeded) {
    if (!verdict.earlier.empty()) {
      lines.push_back(absl::StrCat(NameOfJob(context.job), " succeeded after ",
                                   verdict.restarts_used,
                                   verdict.restarts_used == 1 ? " restart" : " restarts"));
    }
    return lines;
  }
  if (verdict.root_cause) {
    const RootCause& cause = *verdict.root_cause;
    const WorkerExited& exit = cause.failure.exit;
    lines.push_back(absl::StrCat(
        "root cause: ", Describe(cause), " (generation ", cause.failure.generation.value,
        exit.ended_at_ms != 0 ? ", at " + IsoTime(exit.ended_at_ms) : "", ")"));
    if (!exit.stderr_tail.empty()) {
      lines.push_back("the last lines of its stderr:");
      for (const std::string& line : exit.stderr_tail) lines.push_back(absl::StrCat("    ", line));
    }
    const WorkerError error = ParseErrorFile(verdict.error_file);
    if (!error.traceback.empty()) {
      lines.push_back("what it left in its error file:");
      for (const std::string& line : error.traceback) lines.push_back(absl::StrCat("    ", line));
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
  lines.push_back(
      absl::StrCat(NameOfJob(context.job), " ", ToString(verdict.outcome), ": ", verdict.reason));
  lines.push_back(absl::StrCat(
      "exit code ", verdict.exit_code,
      context.run_dir.empty() ? ""
                              : absl::StrCat("; logs of ", context.host, " in ", context.run_dir)));
  return lines;
}

std::string VerdictToJson(const Verdict& verdict, const ReportContext& context) {
  OrderedJson json = {
      {"job", context.job},
      {"epoch", context.requeue_number},
      {"host", context.host},
      {"outcome", ToString(verdict.outcome)},
      {"exit_code", verdict.exit_code},
      {"reason", verdict.reason},
      {"restarts", verdict.restarts_used},
      {"run_dir", context.run_dir},
      {"root_cause", verdict.root_cause ? ToJson(*verdict.root_cause) : OrderedJson(nullptr)},
      {"earlier_generations", OrderedJson::array()},
      {"restart_times", OrderedJson::array()},
  };
  for (const RootCause& cause : verdict.earlier) {
    json["earlier_generations"].push_back(ToJson(cause));
  }
  for (const RestartTimes& times : verdict.restart_times) {
    json["restart_times"].push_back(ToJson(times));
  }
  json["restore"] = verdict.restore ? ToJson(*verdict.restore) : OrderedJson(nullptr);
  AddTo(&json, verdict.failed_checkpoints);
  if (!verdict.excluded.empty()) json["left_out"] = verdict.excluded;
  if (verdict.hang) {
    json["hang"] = {{"verdict", verdict.hang->verdict},
                    {"missing", verdict.hang->missing},
                    {"stacks", ToJson(*verdict.hang->tree, "rank")}};
  }
  return Dump(json, 2) + "\n";
}

absl::Status CopyErrorFile(const std::string& path, const Verdict& verdict) {
  if (!verdict.root_cause) return absl::OkStatus();
  const std::string content =
      ErrorFileOfLauncher(verdict.error_file, verdict.root_cause->failure.exit.status);
  return content.empty() ? absl::OkStatus() : WriteFileAtomic(path, content);
}

absl::Status WriteReport(const std::string& path, const Verdict& verdict,
                         const ReportContext& context) {
  const std::string text = VerdictToJson(verdict, context);
  const int weight = verdict.decided_by_agent && verdict.outcome != Outcome::kPreempted
                         ? kOfANode
                         : Weight(verdict.outcome);
  if (context.once && weight < kOfTheJob) {
    if (WriteNewFileAtomic(path, text).ok()) return absl::OkStatus();
    const int there = WeightIn(path, context);
    if (there > weight || (there == weight && weight == kOfANode)) return absl::OkStatus();
  }
  return WriteFileAtomic(path, text);
}

}  // namespace ddprun
