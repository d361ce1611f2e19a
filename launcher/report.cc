#include "launcher/report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/root_cause.h"

namespace ddprun {

std::vector<std::string> DescribeVerdict(const Verdict& verdict, const ReportContext& context) {
  std::vector<std::string> lines;
  if (verdict.outcome == "succeeded") {
    if (verdict.restarts_used > 0) {
      lines.push_back(absl::StrCat("job ", context.job, " succeeded after ", verdict.restarts_used,
                                   verdict.restarts_used == 1 ? " restart" : " restarts"));
    }
    return lines;
  }
  if (verdict.root_cause) {
    lines.push_back(absl::StrCat("root cause: ", Describe(*verdict.root_cause), " (generation ",
                                 verdict.root_cause->generation.value, ")"));
    const auto& tail = verdict.root_cause->exit.stderr_tail;
    if (!tail.empty()) {
      lines.push_back("the last lines of its stderr:");
      for (const std::string& line : tail) lines.push_back(absl::StrCat("    ", line));
    }
  }
  lines.push_back(absl::StrCat("job ", context.job, " ", verdict.outcome, ": ", verdict.reason));
  lines.push_back(absl::StrCat("exit code ", verdict.exit_code, "; logs of ", context.host, " in ",
                               context.run_dir));
  return lines;
}

std::string VerdictToJson(const Verdict& verdict, const ReportContext& context) {
  nlohmann::ordered_json json = {
      {"job", context.job},         {"host", context.host},
      {"outcome", verdict.outcome}, {"exit_code", verdict.exit_code},
      {"reason", verdict.reason},   {"restarts", verdict.restarts_used},
      {"run_dir", context.run_dir}, {"root_cause", nullptr},
  };
  if (verdict.root_cause) {
    const WorkerFailure& failure = *verdict.root_cause;
    const WorkerExited& exit = failure.exit;
    nlohmann::ordered_json cause = {
        {"host", failure.host},
        {"node_rank", failure.node_rank.value},
        {"rank", exit.rank.value},
        {"local_rank", exit.local_rank.value},
        {"pid", exit.pid},
        {"generation", failure.generation.value},
        {"exit_code", nullptr},
        {"signal", nullptr},
        {"core_dumped", exit.status.core_dumped},
        {"step", nullptr},
        {"error_kind", exit.error_kind},
        {"error", exit.error_text},
        {"stderr_tail", exit.stderr_tail},
    };
    if (exit.status.signal != 0) {
      cause["signal"] = SignalName(exit.status.signal);
    } else {
      cause["exit_code"] = exit.status.code;
    }
    if (exit.step) cause["step"] = *exit.step;
    json["root_cause"] = std::move(cause);
  }
  // Workers may print anything: what is not UTF-8 is replaced.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace ddprun
