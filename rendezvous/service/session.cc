#include "rendezvous/service/session.h"

#include <utility>

#include "absl/status/statusor.h"
#include "rendezvous/auth/refusal_counters.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {

void Session::Begin(std::shared_ptr<RoundLoop> loop, Gate::Place place,
                    std::unique_ptr<SessionCall> call) {
  const std::shared_ptr<Session> session(
      new Session(std::move(loop), std::move(place), std::move(call)));
  {
    const std::lock_guard lock(session->mutex_);
    session->self_ = session;
    // Tells the agent that it is connected, before there is a message for it.
    session->call_->responder.SendInitialMetadata(session->Begin(session->metadata_));
  }
  session->loop_->OnOpen(session);
  const std::lock_guard lock(session->mutex_);
  session->Read();
}

Session::Session(std::shared_ptr<RoundLoop> loop, Gate::Place place,
                 std::unique_ptr<SessionCall> call)
    : loop_(std::move(loop)),
      peer_(call->context.peer()),
      place_(std::move(place)),
      call_(std::move(call)) {}

void* Session::Begin(Operation<Session>& operation) {
  ++pending_;
  return operation.Tag();
}

void Session::CountRefusal(const char* reason, const absl::Status& why) {
  place_.CountRefusal(reason, peer_, why);
}

void Session::Send(const Header& header, const RendezvousMessage& message) {
  const std::lock_guard lock(mutex_);
  if (broken_ || end_ || ended_) return;
  if (outgoing_.size() >= kMaxQueuedMessages) {
    broken_ = true;
    call_->context.TryCancel();  // the read fails, and the loop hears OnEnd
    return;
  }
  outgoing_.push_back(wire::ToProto(header, message));
  Continue();
}

void Session::RequestMessage() {
  const std::lock_guard lock(mutex_);
  ++may_read_;
  Read();
}

void Session::Read() {
  if (reading_ || may_read_ == 0 || end_ || ended_) return;
  reading_ = true;
  --may_read_;
  call_->responder.Read(&incoming_, Begin(read_));
}

void Session::Close(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (end_) return;
  end_ = ToGrpc(status);
  Continue();
}

void Session::Continue() {
  if (writing_ || ended_) return;
  if (!outgoing_.empty() && !broken_) {
    writing_ = true;
    call_->responder.Write(outgoing_.front(), Begin(write_));
  } else if (end_) {
    ended_ = true;
    call_->responder.Finish(*end_, Begin(finish_));
  }
}

void Session::OnMetadataSent(bool) { Done(std::unique_lock(mutex_)); }

void Session::OnRead(bool ok) {
  bool another = false;
  if (!ok) {
    loop_->OnEnd(shared_from_this(), absl::OkStatus());
  } else {
    absl::StatusOr<wire::FromAgent> message = wire::FromProto(incoming_);
    if (message.ok()) {
      loop_->OnMessage(shared_from_this(), std::move(message->header), std::move(message->message));
      another = true;
    } else {
      CountRefusal(refusal::kMalformed, message.status());
      loop_->OnEnd(shared_from_this(), std::move(message).status());
    }
  }
  std::unique_lock lock(mutex_);
  if (another) {
    reading_ = false;
    Read();
  }
  Done(std::move(lock));
}

void Session::OnWritten(bool ok) {
  loop_->gate().Pass();
  std::unique_lock lock(mutex_);
  writing_ = false;
  outgoing_.pop_front();
  if (!ok) broken_ = true;
  Continue();
  Done(std::move(lock));
}

void Session::OnFinished(bool) { Done(std::unique_lock(mutex_)); }

void Session::Done(std::unique_lock<std::mutex> lock) {
  if (--pending_ > 0 || !ended_) return;
  place_.Leave();
  // Not with the lock, which may go with the last owner.
  const std::shared_ptr<Session> self = std::move(self_);
  const std::unique_ptr<SessionCall> call = std::move(call_);
  lock.unlock();
}

}  // namespace ddprun
