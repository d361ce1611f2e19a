// ddprun status, stop, drain and events.
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/credentials.h"
#include "launcher/commands/status_table.h"
#include "rendezvous/client/operator_client.h"
#include "rendezvous/client/system_resolver.h"
#include "rendezvous/core/exit_codes.h"

namespace ddprun {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

// --watch: how soon after the last print something new is shown, and without anything new.
constexpr std::chrono::milliseconds kSoonest{200};
constexpr std::chrono::milliseconds kLatest{1000};
// Between two tries to reach a rendezvous that went away.
constexpr std::chrono::milliseconds kRetry{500};

const char* NameOf(OperatorCommand::Kind kind) {
  switch (kind) {
    case OperatorCommand::Kind::kStatus:
      return "status";
    case OperatorCommand::Kind::kStop:
      return "stop";
    case OperatorCommand::Kind::kDrain:
      return "drain";
    case OperatorCommand::Kind::kEvents:
      return "events";
  }
  return "?";
}

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kExitUnavailable;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return kExitRefused;
    case absl::StatusCode::kInvalidArgument:
      return kExitUsage;
    case absl::StatusCode::kInternal:
      return kExitInternal;
    default:
      return kExitNo;
  }
}

int Fail(const OperatorCommand& command, const absl::Status& status) {
  std::fprintf(stderr, "ddprun %s: %s\n", NameOf(command.kind),
               std::string(status.message()).c_str());
  return ExitCodeOf(status);
}

// False when nobody reads stdout any more.
bool Print(const std::string& text) {
  return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
}

absl::Status CheckThatItExists(const OperatorCommand& command, const std::string& status) {
  if (command.job.empty()) return absl::OkStatus();
  const Json json = Json::parse(status, nullptr, false);
  const bool found = json.is_object() && json.contains("jobs") && !json["jobs"].empty();
  if (found) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("the rendezvous at ", command.endpoint, " has no job ",
                                          command.job, "; `ddprun status` shows those it has"));
}

// ---- status ----

absl::StatusOr<std::string> StatusText(const OperatorCommand& command, OperatorClient& client) {
  auto json = client.Status(command.job);
  if (!json.ok()) return json.status();
  if (const absl::Status status = CheckThatItExists(command, *json); !status.ok()) return status;
  if (command.json) return absl::StrCat(*json, "\n");
  return StatusTable(*json, {command.endpoint, command.verbosity > 0});
}

int ShowStatus(const OperatorCommand& command, OperatorClient& client) {
  const auto text = StatusText(command, client);
  if (!text.ok()) return Fail(command, text.status());
  Print(*text);
  return 0;
}

// Reads a stream of events on a thread of its own, for what only wants to know that one came.
class ChangeBell {
 public:
  explicit ChangeBell(std::unique_ptr<OperatorClient::Events> events)
      : events_(std::move(events)), thread_([this] {
          std::string line;
          while (events_->Next(&line)) {
            const std::lock_guard lock(mutex_);
            rang_ = true;
            changed_.notify_all();
          }
          const std::lock_guard lock(mutex_);
          ended_ = true;
          changed_.notify_all();
        }) {}
  ~ChangeBell() {
    events_->Cancel();
    thread_.join();
    (void)events_->Finish();
  }

  enum class Heard { kChange, kNothing, kEnd };
  Heard WaitUntil(Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [this] { return rang_ || ended_; });
    if (std::exchange(rang_, false)) return Heard::kChange;
    return ended_ ? Heard::kEnd : Heard::kNothing;
  }

 private:
  const std::unique_ptr<OperatorClient::Events> events_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rang_ = false;
  bool ended_ = false;
  std::thread thread_;
};

// Shows the status until it is interrupted: on a terminal always the newest, else each one after
// something has happened.
int WatchStatus(const OperatorCommand& command, OperatorClient& client) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const auto show = [&](const std::string& text) {
    // Home, and erase what is left below: without flicker, where a full erase would blink.
    return Print(terminal ? absl::StrCat("\x1b[H\x1b[J", text) : absl::StrCat(text, "\n"));
  };
  bool was_there = false;
  for (;;) {
    auto events = client.Follow({command.job, /*follow=*/true, 0, /*only_new=*/true});
    auto text =
        events.ok() ? StatusText(command, client) : absl::StatusOr<std::string>(events.status());
    if (!text.ok()) {
      const bool gone = absl::IsUnavailable(text.status());
      if (!was_there || !gone) return Fail(command, text.status());
      if (terminal) show(absl::StrCat(std::string(text.status().message()), "; trying again\n"));
      std::this_thread::sleep_for(kRetry);
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
      // What comes together is shown together.
      std::this_thread::sleep_until(shown + kSoonest);
      text = StatusText(command, client);
      if (!text.ok()) {
        if (absl::IsUnavailable(text.status())) break;
        return Fail(command, text.status());
      }
      if (!show(*text)) return 0;
      shown = Clock::now();
    }
    std::this_thread::sleep_for(kRetry);
  }
}

// ---- stop ----

std::string Ending(const std::string& job, const Json& of) {
  const std::string reason = of.value("reason", "");
  return absl::StrCat("job ", job, " ended: ", of.value("outcome", "?"), " (exit code ",
                      of.value("exit_code", 0), ")", reason.empty() ? "" : ": ", reason, "\n");
}

// "" while the job runs. Error: it cannot be asked for, or is forgotten.
absl::StatusOr<std::string> EndingByStatus(const OperatorCommand& command, OperatorClient& client) {
  const auto text = client.Status(command.job);
  if (!text.ok()) return text.status();
  if (absl::Status status = CheckThatItExists(command, *text); !status.ok()) return status;
  const Json json = Json::parse(*text, nullptr, false);
  const Json& job = json["jobs"][0];
  return job.contains("outcome") && job["outcome"].is_string() ? Ending(command.job, job)
                                                               : std::string();
}

int StopJob(const OperatorCommand& command, OperatorClient& client) {
  // Followed before it is stopped: its end is not missed, however soon it comes.
  std::unique_ptr<OperatorClient::Events> events;
  const auto follow = [&] {
    events.reset();
    auto followed = client.Follow({command.job, /*follow=*/true, 0, /*only_new=*/true});
    if (followed.ok()) events = *std::move(followed);
    return followed.status();
  };
  if (command.wait) {
    if (const absl::Status status = follow(); !status.ok()) return Fail(command, status);
  }
  const auto answer = client.StopJob(command.job, command.save);
  if (!answer.ok()) return Fail(command, answer.status());
  if (command.verbosity >= 0) Print(absl::StrCat(*answer, "\n"));
  if (!command.wait) return 0;
  auto patience = Clock::now() + command.timeout;  // with a rendezvous that went away
  for (;;) {
    std::string line;
    while (events != nullptr && events->Next(&line)) {
      const Json event = Json::parse(line, nullptr, false);
      if (!event.is_object() || event.value("event", "") != "finished") continue;
      Print(Ending(command.job, event));
      return 0;
    }
    if (events != nullptr) {
      const absl::Status why = events->Finish();
      if (!why.ok() && !absl::IsUnavailable(why) && !absl::IsResourceExhausted(why)) {
        return Fail(command, why);
      }
      patience = Clock::now() + command.timeout;
    }
    const absl::Status followed = follow();
    const auto ended =
        followed.ok() ? EndingByStatus(command, client) : absl::StatusOr<std::string>(followed);
    if (ended.ok() && !ended->empty()) {
      Print(*ended);
      return 0;
    }
    if (ended.ok()) continue;
    events.reset();
    if (!absl::IsUnavailable(ended.status()) || Clock::now() >= patience) {
      return Fail(command, ended.status());
    }
    std::this_thread::sleep_for(kRetry);
  }
}

// ---- drain, events ----

int DrainNode(const OperatorCommand& command, OperatorClient& client) {
  const auto answer = client.DrainNode(command.node, command.job);
  if (!answer.ok()) return Fail(command, answer.status());
  Print(absl::StrCat(*answer, "\n"));
  return 0;
}

int ShowEvents(const OperatorCommand& command, OperatorClient& client) {
  OperatorClient::EventsWanted wanted{command.job, command.follow, 0, false};
  if (command.since) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    wanted.since_ms =
        (std::chrono::duration_cast<std::chrono::milliseconds>(now) - *command.since).count();
  }
  auto events = client.Follow(wanted);
  if (!events.ok()) return Fail(command, events.status());
  std::string line;
  while ((*events)->Next(&line)) {
    if (!Print(absl::StrCat(line, "\n"))) return 0;
  }
  const absl::Status status = (*events)->Finish();
  return status.ok() ? 0 : Fail(command, status);
}

}  // namespace

int Operate(const OperatorCommand& command) {
  UseSystemResolver();
  OperatorClient::Options options;
  options.endpoint = command.endpoint;
  options.timeout = command.timeout;
  auto credentials = LoadCredentials(command.credentials);
  if (!credentials.ok()) {
    Fail(command, credentials.status());
    return kExitUsage;
  }
  options.credentials = *std::move(credentials);
  OperatorClient client(std::move(options));
  switch (command.kind) {
    case OperatorCommand::Kind::kStatus:
      return command.watch ? WatchStatus(command, client) : ShowStatus(command, client);
    case OperatorCommand::Kind::kStop:
      return StopJob(command, client);
    case OperatorCommand::Kind::kDrain:
      return DrainNode(command, client);
    case OperatorCommand::Kind::kEvents:
      return ShowEvents(command, client);
  }
  return kExitInternal;
}

}  // namespace ddprun
