#include "launcher/commands/live/status_source.h"

#include <utility>

#include "launcher/commands/operator.h"

namespace ddprun::top {
namespace {

using Clock = ChangeBell::Clock;

constexpr std::chrono::milliseconds kSoonest{200};
constexpr std::chrono::milliseconds kLatest{1000};

OperatorClient::Options With(std::stop_token stop, OperatorClient::Options options) {
  options.stop = std::move(stop);
  return options;
}

}  // namespace

StatusSource::StatusSource(OperatorClient::Options options, std::string job, Handler handler)
    : options_(With(stop_.get_token(), std::move(options))),
      job_(std::move(job)),
      handler_(std::move(handler)),
      thread_([this] { Run(); }) {}

StatusSource::~StatusSource() {
  stop_.request_stop();
  thread_.join();
}

bool StatusSource::Pause(Clock::time_point until) {
  std::unique_lock lock(mutex_);
  stopped_.wait_until(lock, stop_.get_token(), until, [] { return false; });
  return !stop_.stop_requested();
}

void StatusSource::Run() {
  OperatorClient client(options_);
  do {
    const absl::Status status = Follow(client);
    if (!status.ok()) handler_(status);
  } while (Pause(Clock::now() + kRetryRendezvous));
}

// Runs until the stream of events ends.
absl::Status StatusSource::Follow(OperatorClient& client) {
  auto events = client.Follow({job_, /*follow=*/true, 0, /*only_new=*/true});
  if (!events.ok()) return events.status();
  ChangeBell bell(*std::move(events));
  absl::Status end;
  for (auto heard = ChangeBell::Heard::kChange; heard != ChangeBell::Heard::kEnd;) {
    auto status = client.Status(job_);
    if (!status.ok()) {
      end = status.status();
      break;
    }
    const auto shown = Clock::now();
    handler_(*std::move(status));
    heard = bell.WaitUntil(shown + kLatest);
    // Changes within this time are shown together.
    if (!Pause(shown + kSoonest)) break;
  }
  return end;
}

}  // namespace ddprun::top
