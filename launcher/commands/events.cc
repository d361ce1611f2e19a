// ddprun events.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "launcher/commands/operator.h"
#include "launcher/text/event_position.h"
#include "launcher/text/event_trace.h"

namespace ddprun {

namespace {

using Clock = std::chrono::steady_clock;

// Prints the event lines of one command.
class EventPrinter {
 public:
  // `goes_on`: another stream may follow this one.
  EventPrinter(const OperatorCommand& command, bool goes_on)
      : command_(command), goes_on_(goes_on) {}

  // Prints until `events` ends. False: the reader of stdout is gone.
  bool Take(OperatorClient::Events& events) {
    std::string line;
    while (events.Next(&line)) {
      if (command_.trace) {
        trace_.Add(line);
      } else if ((!goes_on_ || position_.IsNew(line)) && !PrintOut(absl::StrCat(line, "\n"))) {
        return false;
      }
    }
    return true;
  }
  std::int64_t since_ms() const { return position_.since_ms(); }
  std::string Trace() { return trace_.Finish(absl::Now()); }

 private:
  const OperatorCommand& command_;
  const bool goes_on_;
  EventPosition position_;
  EventTrace trace_;
};

}  // namespace

int ShowEvents(const OperatorCommand& command, OperatorClient& client) {
  OperatorClient::EventsWanted wanted{command.job, command.follow, 0, false};
  if (command.since) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    wanted.since_ms =
        (std::chrono::duration_cast<std::chrono::milliseconds>(now) - *command.since).count();
  }
  const bool may_go_on = command.follow && client.several();
  EventPrinter printer(command, may_go_on);
  auto patience = Clock::now();  // waits for a leader until then
  for (;;) {
    auto events = client.Follow(wanted);
    absl::Status status = events.status();
    if (events.ok()) {
      if (!printer.Take(**events)) return 0;
      status = (*events)->Finish();
      patience = Clock::now() + command.timeout;
    }
    const bool goes_on = may_go_on && absl::IsUnavailable(status) && Clock::now() < patience;
    if (!goes_on && !status.ok()) return FailOperator(command, status);
    if (!goes_on) break;
    wanted.since_ms = std::max(wanted.since_ms, printer.since_ms());
    std::this_thread::sleep_for(kRetryRendezvous);
  }
  if (command.trace) PrintOut(absl::StrCat(printer.Trace(), "\n"));
  return 0;
}

}  // namespace ddprun
