#include "launcher/commands/live/change_bell.h"

#include <string>
#include <utility>

namespace ddprun {

ChangeBell::ChangeBell(std::unique_ptr<OperatorClient::Events> events)
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

ChangeBell::~ChangeBell() {
  events_->Cancel();
  thread_.join();
  (void)events_->Finish();
}

ChangeBell::Heard ChangeBell::WaitUntil(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [this] { return rang_ || ended_; });
  if (std::exchange(rang_, false)) return Heard::kChange;
  return ended_ ? Heard::kEnd : Heard::kNothing;
}

}  // namespace ddprun
