#include "rendezvous/service/leadership/follow_call.h"

#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace {

constexpr std::uint32_t kShortestIntervalMs = 100;
constexpr std::uint32_t kLongestIntervalMs = 60'000;

v1::Leading ToProto(const Leading& leading) {
  v1::Leading message;
  message.set_role(static_cast<std::uint32_t>(leading.role));
  message.set_term(leading.term.revision);
  message.set_cluster(leading.term.cluster);
  message.set_leader(leading.leader);
  return message;
}

}  // namespace

FollowCall::FollowCall(CallQueues& queues) : WriterCall(queues) {
  context.AsyncNotifyWhenDone(done_.Tag());
}

absl::StatusOr<Duration> FollowCall::IntervalOf(const v1::FollowRequest& request) {
  const std::uint32_t ms = request.interval_ms();
  if (ms == 0 || (ms >= kShortestIntervalMs && ms <= kLongestIntervalMs)) {
    return std::chrono::milliseconds(ms);
  }
  return absl::InvalidArgumentError(absl::StrCat("interval_ms: expected 0 or ", kShortestIntervalMs,
                                                 " to ", kLongestIntervalMs, " (found ", ms, ")"));
}

void FollowCall::Begin(std::unique_ptr<FollowCall> owned, std::shared_ptr<LeaderBoard> board,
                       AccessControl::Slot slot, Duration interval) {
  const std::shared_ptr<FollowCall> call(std::move(owned));
  {
    const std::lock_guard lock(call->mutex_);
    call->self_ = call;
    call->board_ = board;
    call->slot_.emplace(std::move(slot));
    call->Continue();  // the call may have ended already
  }
  board->Add(call, interval);
  const std::lock_guard lock(call->mutex_);
  if (call->end_) board->Remove(call.get());  // the call ended before it was added
}

void FollowCall::Refuse(std::unique_ptr<FollowCall> owned, const absl::Status& why) {
  const std::shared_ptr<FollowCall> call(std::move(owned));
  {
    const std::lock_guard lock(call->mutex_);
    call->self_ = call;
  }
  call->End(why);
}

void FollowCall::Tell(const Leading& leading) {
  const std::lock_guard lock(mutex_);
  next_ = leading;
  Continue();
}

void FollowCall::End(const absl::Status& why) {
  const std::lock_guard lock(mutex_);
  if (!end_) end_ = why;
  Continue();
}

void FollowCall::Continue() {
  if (self_ == nullptr || writing_ || ended_) return;
  if (end_) {
    ended_ = true;
    ++pending_;
    responder.Finish(ToGrpc(*end_), finish_.Tag());
  } else if (next_) {
    writing_ = true;
    ++pending_;
    responder.Write(ToProto(*std::exchange(next_, std::nullopt)), write_.Tag());
  }
}

void FollowCall::OnWritten(bool ok) {
  std::unique_lock lock(mutex_);
  writing_ = false;
  if (!ok && !end_) end_ = absl::CancelledError();
  Continue();
  Leave(std::move(lock));
}

void FollowCall::OnDone(bool) {
  std::unique_lock lock(mutex_);
  if (!end_) end_ = absl::CancelledError();
  Continue();
  Leave(std::move(lock));
}

void FollowCall::OnFinished(bool) { Leave(std::unique_lock(mutex_)); }

void FollowCall::Leave(std::unique_lock<std::mutex> lock) {
  if (--pending_ > 0 || !ended_) return;
  const std::shared_ptr<FollowCall> self = std::move(self_);  // released after the lock
  const std::shared_ptr<LeaderBoard> board = board_;
  if (slot_) slot_->Leave();
  lock.unlock();
  if (board != nullptr) board->Remove(this);
}

}  // namespace ddprun
