// ddprun status.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "launcher/commands/live/change_bell.h"
#include "launcher/commands/operator.h"
#include "launcher/text/status_table.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

// --watch: the shortest time between two prints, and the longest without news.
constexpr std::chrono::milliseconds kSoonest{200};
constexpr std::chrono::milliseconds kLatest{1000};

absl::StatusOr<std::string> StatusText(const OperatorCommand& command, OperatorClient& client) {
  auto json = client.Status(command.job);
  if (!json.ok()) return json.status();
  if (const absl::Status status = CheckThatJobExists(command, *json); !status.ok()) return status;
  if (command.json) return absl::StrCat(*json, "\n");
  return StatusTable(*json, {client.endpoint(), command.verbosity > 0});
}

// Shows the status until interrupted: on a terminal the newest in place, else one after each
// change.
int WatchStatus(const OperatorCommand& command, OperatorClient& client) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const auto show = [&](const std::string& text) {
    // Cursor home, then erase below. Erasing the whole screen would flicker.
    if (terminal) std::fputs("\x1b[H\x1b[J", stdout);
    return PrintOut(terminal ? text : absl::StrCat(text, "\n"));
  };
  bool was_there = false;
  for (;;) {
    auto events = client.Follow({command.job, /*follow=*/true, 0, /*only_new=*/true});
    auto text =
        events.ok() ? StatusText(command, client) : absl::StatusOr<std::string>(events.status());
    if (!text.ok()) {
      const bool gone = absl::IsUnavailable(text.status());
      if (!was_there || !gone) return FailOperator(command, text.status());
      if (terminal) show(absl::StrCat(std::string(text.status().message()), "; trying again\n"));
      std::this_thread::sleep_for(kRetryRendezvous);
      continue;
    }
    was_there = true;
    if (!show(*text)) return 0;
    ChangeBell bell(*std::move(events));
    for (auto shown = Clock::now();;) {
      const auto heard = bell.WaitUntil(shown + kLatest);
      if (heard == ChangeBell::Heard::kEnd) break;
      if (heard == ChangeBell::Heard::kNothing && !terminal) {
        shown = Clock::now();
        continue;
      }
      // Changes within this time are shown together.
      std::this_thread::sleep_until(shown + kSoonest);
      text = StatusText(command, client);
      if (!text.ok()) {
        if (absl::IsUnavailable(text.status())) break;
        return FailOperator(command, text.status());
      }
      if (!show(*text)) return 0;
      shown = Clock::now();
    }
    std::this_thread::sleep_for(kRetryRendezvous);
  }
}

}  // namespace

int ShowStatus(const OperatorCommand& command, OperatorClient& client) {
  if (command.watch) return WatchStatus(command, client);
  const auto text = StatusText(command, client);
  if (!text.ok()) return FailOperator(command, text.status());
  PrintOut(*text);
  return 0;
}

}  // namespace ddprun
