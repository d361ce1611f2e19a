// ddprun stop.
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "launcher/commands/operator.h"
#include "launcher/text/status_table.h"
#include "worker/contract/job_name.h"

namespace ddprun {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

std::string Ending(const std::string& job, const Json& of) {
  const std::string reason = of.value("reason", "");
  return absl::StrCat(NameOfJob(job), " ended: ", OutcomeText(of.value("outcome", "?")),
                      " (exit code ", of.value("exit_code", 0), ")", reason.empty() ? "" : ": ",
                      reason, "\n");
}

// "" while the job runs. Error: the rendezvous does not answer, or has forgotten the job.
absl::StatusOr<std::string> EndingByStatus(const OperatorCommand& command, OperatorClient& client) {
  const auto text = client.Status(command.job);
  if (!text.ok()) return text.status();
  if (absl::Status status = CheckThatJobExists(command, *text); !status.ok()) return status;
  const Json json = Json::parse(*text, nullptr, false);
  const Json& job = json["jobs"][0];
  return job.contains("outcome") && job["outcome"].is_string() ? Ending(command.job, job)
                                                               : std::string();
}

}  // namespace

int StopJob(const OperatorCommand& command, OperatorClient& client) {
  // Follows the job's events before stopping it, so that its end is not missed.
  std::unique_ptr<OperatorClient::Events> events;
  const auto follow = [&] {
    events.reset();
    auto followed = client.Follow({command.job, /*follow=*/true, 0, /*only_new=*/true});
    if (followed.ok()) events = *std::move(followed);
    return followed.status();
  };
  if (command.wait) {
    if (const absl::Status status = follow(); !status.ok()) return FailOperator(command, status);
  }
  const auto answer = client.StopJob(command.job, command.save);
  if (!answer.ok()) return FailOperator(command, answer.status());
  if (command.verbosity >= 0) PrintOut(absl::StrCat(*answer, "\n"));
  if (!command.wait) return 0;
  auto patience = Clock::now() + command.timeout;  // for a rendezvous that went away
  for (;;) {
    std::string line;
    while (events != nullptr && events->Next(&line)) {
      const Json event = Json::parse(line, nullptr, false);
      if (!event.is_object() || event.value("event", "") != "finished") continue;
      PrintOut(Ending(command.job, event));
      return 0;
    }
    if (events != nullptr) {
      const absl::Status why = events->Finish();
      if (!why.ok() && !absl::IsUnavailable(why) && !absl::IsResourceExhausted(why)) {
        return FailOperator(command, why);
      }
      patience = Clock::now() + command.timeout;
    }
    const absl::Status followed = follow();
    const auto ended =
        followed.ok() ? EndingByStatus(command, client) : absl::StatusOr<std::string>(followed);
    if (ended.ok() && !ended->empty()) {
      PrintOut(*ended);
      return 0;
    }
    if (ended.ok()) continue;
    events.reset();
    if (!absl::IsUnavailable(ended.status()) || Clock::now() >= patience) {
      return FailOperator(command, ended.status());
    }
    std::this_thread::sleep_for(kRetryRendezvous);
  }
}

}  // namespace ddprun
