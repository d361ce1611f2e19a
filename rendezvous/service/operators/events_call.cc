#include "rendezvous/service/operators/events_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/auth/refusal_counters.h"

namespace ddprun {

EventsCall::EventsCall(CallQueues& queues) : WriterCall(queues) {
  context.AsyncNotifyWhenDone(done_.Tag());
}

void EventsCall::Begin(std::unique_ptr<EventsCall> owned, std::shared_ptr<EventLog> log,
                       std::string owner, const Refused& refused) {
  EventsCall* const call = owned.release();
  const bool follow = call->request.follow();
  call->log_ = std::move(log);
  call->filter_.owner = std::move(owner);
  call->filter_.job = call->request.job();
  call->filter_.since_ms = call->request.since_ms();
  // Follow is called before the place is read. So each line from that place on is found by
  // Continue(), or wakes this call.
  std::uint64_t follower = 0;
  if (follow) {
    follower = call->log_->Follow([call] {
      const std::lock_guard lock(call->mutex_);
      call->Continue();
    });
  }
  const std::lock_guard lock(call->mutex_);
  call->follower_ = follower;
  if (follow && follower == 0) {
    const absl::Status why = absl::ResourceExhaustedError(absl::StrCat(
        "the rendezvous has ", EventLog::kMaxFollowers, " followers, and no more are possible"));
    refused(call->context, refusal::kTooManyFollowers, why);
    call->End(why);
    return;
  }
  if (call->cancelled_) {
    call->End(absl::CancelledError());
    return;
  }
  call->place_ = call->request.only_new() ? call->log_->End() : call->log_->Oldest();
  ++call->pending_;
  call->responder.SendInitialMetadata(call->metadata_.Tag());
  call->ready_ = true;
  call->Continue();
}

void EventsCall::Refuse(std::unique_ptr<EventsCall> owned, const absl::Status& why) {
  EventsCall* const call = owned.release();
  const std::lock_guard lock(call->mutex_);
  call->End(why);
}

void EventsCall::OnMetadataSent(bool) { Leave(std::unique_lock(mutex_)); }

void EventsCall::OnWritten(bool ok) {
  std::unique_lock lock(mutex_);
  writing_ = false;
  if (ok && !cancelled_) {
    Continue();
  } else {
    End(absl::CancelledError());
  }
  Leave(std::move(lock));
}

void EventsCall::OnDone(bool) {
  std::unique_lock lock(mutex_);
  cancelled_ = true;
  if (ready_ && !writing_) End(absl::CancelledError());
  Leave(std::move(lock));
}

void EventsCall::OnFinished(bool) { Leave(std::unique_lock(mutex_)); }

void EventsCall::Continue() {
  if (!ready_ || writing_ || ended_) return;
  std::shared_ptr<const EventLog::Line> line;
  const absl::Status status = log_->Next(filter_, &place_, &line);
  if (absl::IsOutOfRange(status)) {
    End(absl::ResourceExhaustedError(status.message()));
  } else if (line != nullptr) {
    v1::EventLine message;
    message.set_json(line->json);
    writing_ = true;
    ++pending_;
    responder.Write(message, write_.Tag());
  } else if (!request.follow()) {
    End(absl::OkStatus());
  } else if (!status.ok()) {
    End(status);
  }
}

void EventsCall::End(const absl::Status& status) {
  if (std::exchange(ended_, true)) return;
  ++pending_;
  responder.Finish(ToGrpc(status), finish_.Tag());
}

void EventsCall::Leave(std::unique_lock<std::mutex> lock) {
  if (--pending_ > 0 || !ended_) return;
  lock.unlock();
  if (follower_ != 0) log_->Unfollow(follower_);  // its wake may still run, but does nothing now
  delete this;
}

}  // namespace ddprun
