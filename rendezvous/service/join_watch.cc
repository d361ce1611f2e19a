#include "rendezvous/service/join_watch.h"

#include <grpc/support/time.h>

#include <vector>

#include "rendezvous/wire/grpc_handoff.h"

namespace ddprun {

void JoinWatch::Add(const std::shared_ptr<Session>& session) {
  const auto now = Clock::now();
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  entries_.push_back({now + time_to_join_, session});
  if (entries_.size() == 1) Arm(now);
}

void JoinWatch::Stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  entries_.clear();
  if (alarm_ != nullptr) alarm_->Cancel();
}

void JoinWatch::Arm(Clock::time_point now) {
  // Another one each time: an alarm is in use until its callback has returned.
  alarm_ = std::make_unique<grpc::Alarm>();
  const auto wait =
      std::chrono::duration_cast<std::chrono::nanoseconds>(entries_.front().deadline - now);
  wire::HandToGrpc(this);
  alarm_->Set(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(wait.count(), GPR_TIMESPAN)),
      [self = shared_from_this()](bool) { self->OnAlarm(); });
}

void JoinWatch::OnAlarm() {
  wire::TakeFromGrpc(this);
  std::vector<std::shared_ptr<Session>> late;
  std::unique_ptr<grpc::Alarm> over;
  {
    const auto now = Clock::now();
    const std::lock_guard lock(mutex_);
    // Those that have ended meanwhile need no alarm of their own.
    while (!entries_.empty()) {
      auto session = entries_.front().session.lock();
      if (session != nullptr && entries_.front().deadline > now) break;
      if (session != nullptr) late.push_back(std::move(session));
      entries_.pop_front();
    }
    if (!entries_.empty() && !stopped_) {
      Arm(now);
    } else {
      over = std::move(alarm_);  // it holds us
    }
  }
  for (const auto& session : late) session->OnTimeToJoinOver();
}

}  // namespace ddprun
