#include "tests/scenario/job_text.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/words.h"
#include "worker/contract/overloaded.h"

namespace ddprun {
namespace {

std::string Text(const Finished& end) {
  return absl::StrCat("Finished ", ToString(end.outcome), " ", end.exit_code, ": ", end.reason,
                      end.root_cause ? absl::StrCat(" [", Text(*end.root_cause), "]") : "",
                      end.failed_checkpoints.count > 0
                          ? absl::StrCat("; failed checkpoints: ", end.failed_checkpoints.count)
                          : "");
}

}  // namespace

std::string Text(const RootCause& cause) {
  std::string text = Describe(cause);
  for (const WorkerFailure& victim : cause.victims) {
    absl::StrAppend(&text, "; victim: rank ", victim.exit.rank.value);
  }
  return text;
}

std::string Text(const RendezvousMessage& message) {
  return std::visit(
      Overloaded{
          [](const Waiting& waiting) {
            return absl::StrCat("Waiting", waiting.start_standbys ? ", start standbys" : "", ": ",
                                waiting.reason);
          },
          [](const HeartbeatAck&) { return std::string("HeartbeatAck"); },
          [](const Assignment& a) {
            return absl::StrCat("Assignment node ", a.node_rank.value, " of ", a.node_count,
                                ", ranks from ", a.first_rank.value, " of ", a.world_size,
                                ", master ", a.master_addr, ":", a.master_port, ", restarts ",
                                a.restart_count, " of ", a.max_restarts,
                                a.agent_store ? ", agent's store" : "",
                                a.restore ? "; " + Describe(*a.restore) : "");
          },
          [](const Start&) { return std::string("Start"); },
          [](const Save&) { return std::string("Save"); },
          [](const Stop& stop) { return absl::StrCat("Stop: ", stop.reason); },
          [](const Finished& end) { return Text(end); },
          [](const Fenced& fenced) { return absl::StrCat("Fenced: ", fenced.reason); },
          [](const Refused& refused) { return absl::StrCat("Refused: ", refused.reason); },
          [](const Warning& warning) { return absl::StrCat("Warning: ", warning.text); },
          [](const LookAgain&) { return std::string("LookAgain"); },
          [](const TakeStacks&) { return std::string("TakeStacks"); },
          [](const HangReported&) { return std::string("HangStacks"); },
          [](const LogOrder&) { return std::string("LogOrder"); },
      },
      message);
}

std::string Text(const JobEvent& event) {
  std::string text = ToString(event.kind);
  if (!event.host.empty()) absl::StrAppend(&text, " ", event.host);
  if (event.kind == JobEvent::Kind::kFormed || event.kind == JobEvent::Kind::kStarted) {
    absl::StrAppend(&text, " generation ", event.generation.value, ": ", Nodes(event.nodes), ", ",
                    event.workers, " workers");
  }
  if (event.restore) absl::StrAppend(&text, "; ", Describe(*event.restore));
  if (event.step) absl::StrAppend(&text, " step ", *event.step);
  if (event.outcome) {
    absl::StrAppend(&text, " ", ToString(*event.outcome), " ", event.exit_code);
  }
  if (!event.reason.empty()) absl::StrAppend(&text, ": ", event.reason);
  if (event.failed_checkpoints > 0) {
    absl::StrAppend(&text, " (", event.failed_checkpoints, " in all)");
  }
  if (event.kind == JobEvent::Kind::kRestarted) {
    absl::StrAppend(&text, " (", event.restarts, " used)");
  }
  return text;
}

}  // namespace ddprun
