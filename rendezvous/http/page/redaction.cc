#include "rendezvous/http/page/redaction.h"

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "rendezvous/core/measures/restart_phases.h"

namespace ddprun::http {
namespace {

constexpr const char* kHarmless[] = {
    "time",     "job",       "epoch",         "generation",        "event",     "nodes",
    "workers",  "restarts",  "step",          "outcome",           "exit_code", "warm_workers",
    "total_ms", "phases_ms", "to_first_step", "failed_checkpoints"};

// "lost contact: held back: no space on /data" → "lost contact: held back".
std::string StateWithoutReason(const std::string& state) {
  constexpr absl::string_view kLostContact = "lost contact: ";
  absl::string_view rest = state;
  const bool lost_contact = absl::ConsumePrefix(&rest, kLostContact);
  return absl::StrCat(lost_contact ? kLostContact : "", rest.substr(0, rest.find(':')));
}

}  // namespace

void Redact(JobStatus* job) {
  job->reason.clear();
  job->last_cause.reset();
  if (job->finished) {
    Finished& finished = *job->finished;
    finished.reason.clear();
    finished.root_cause.reset();
    finished.earlier.clear();
    finished.excluded.clear();
  }
  job->failed_checkpoints.last_host.clear();
  job->failed_checkpoints.last_reason.clear();
  if (job->restore) job->restore->host.clear();
  if (job->progress && !job->progress->hang.empty()) job->progress->hang = "hangs";
  if (job->not_judged) job->not_judged = JobStatus::NotJudged{};
  if (job->arrivals) job->arrivals->missing.clear();
  std::size_t number = 1;  // numbered as in the metrics
  for (NodeStatus& node : job->nodes) {
    node.host = absl::StrCat("node ", number++);
    node.address.clear();
    node.stuck.clear();
    node.state = StateWithoutReason(node.state);
  }
}

nlohmann::ordered_json RedactedPhases(const nlohmann::ordered_json& phases_ms) {
  nlohmann::ordered_json shown = nlohmann::ordered_json::object();
  if (!phases_ms.is_object()) return shown;
  for (const auto& [name, ms] : phases_ms.items()) {
    if (!ms.is_number()) continue;
    const std::string phase(KnownPhase(name));
    shown[phase] = shown.value(phase, 0.0) + ms.get<double>();
  }
  return shown;
}

nlohmann::ordered_json RedactedLine(const nlohmann::ordered_json& line) {
  nlohmann::ordered_json shown;
  for (const char* name : kHarmless) {
    if (const auto found = line.find(name); found != line.end()) shown[name] = *found;
  }
  if (const auto phases = shown.find("phases_ms"); phases != shown.end()) {
    *phases = RedactedPhases(*phases);
  }
  return shown;
}

}  // namespace ddprun::http
