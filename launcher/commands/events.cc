// ddprun events.
#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "launcher/commands/operator.h"
#include "launcher/text/event_trace.h"

namespace ddprun {

int ShowEvents(const OperatorCommand& command, OperatorClient& client) {
  OperatorClient::EventsWanted wanted{command.job, command.follow, 0, false};
  if (command.since) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    wanted.since_ms =
        (std::chrono::duration_cast<std::chrono::milliseconds>(now) - *command.since).count();
  }
  auto events = client.Follow(wanted);
  if (!events.ok()) return FailOperator(command, events.status());
  EventTrace trace;
  std::string line;
  while ((*events)->Next(&line)) {
    if (command.trace) {
      trace.Add(line);
    } else if (!PrintOut(absl::StrCat(line, "\n"))) {
      return 0;
    }
  }
  const absl::Status status = (*events)->Finish();
  if (!status.ok()) return FailOperator(command, status);
  if (command.trace) PrintOut(absl::StrCat(trace.Finish(), "\n"));
  return 0;
}

}  // namespace ddprun
