#include "rendezvous/service/session.h"

#include <utility>

#include "absl/status/statusor.h"
#include "rendezvous/auth/refusal_counters.h"
#include "rendezvous/wire/grpc_handoff.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {

std::shared_ptr<Session> Session::Begin(std::shared_ptr<RoundLoop> loop, Gate::Place place,
                                        grpc::CallbackServerContext* context) {
  const std::shared_ptr<Session> session(new Session(std::move(loop), std::move(place), context));
  session->self_ = session;
  // Tells the agent that it is connected, before there is a message for it.
  wire::HandToGrpc(session.get());
  session->StartSendInitialMetadata();
  session->loop_->OnOpen(session);
  {
    const std::lock_guard lock(session->mutex_);
    session->Read();
  }
  return session;
}

Session::Session(std::shared_ptr<RoundLoop> loop, Gate::Place place,
                 grpc::CallbackServerContext* context)
    : loop_(std::move(loop)), context_(context), peer_(context->peer()), place_(std::move(place)) {}

void Session::OnTimeToJoinOver() {
  if (heard_) return;
  const absl::Status why = absl::DeadlineExceededError("no Join came in time");
  CountRefusal(refusal::kNoJoin, why);
  loop_->OnEnd(shared_from_this(), why);
}

void Session::CountRefusal(const char* reason, const absl::Status& why) {
  place_.CountRefusal(reason, peer_, why);
}

void Session::Send(const Header& header, const RendezvousMessage& message) {
  const std::lock_guard lock(mutex_);
  if (broken_ || end_ || ended_) return;
  if (outgoing_.size() >= kMaxQueuedMessages) {
    broken_ = true;
    if (!ended_) context_->TryCancel();  // the read fails, and the loop hears OnEnd
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
  StartRead(&incoming_);
}

void Session::Close(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (end_) return;
  end_ = grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
  Continue();
}

void Session::Continue() {
  if (writing_ || ended_) return;
  if (!outgoing_.empty() && !broken_) {
    writing_ = true;
    StartWrite(&outgoing_.front());
  } else if (end_) {
    ended_ = true;
    Finish(*end_);
  }
}

void Session::OnReadDone(bool ok) {
  wire::TakeFromGrpc(this);
  if (!ok) {
    loop_->OnEnd(shared_from_this(), absl::OkStatus());
    return;
  }
  heard_ = true;
  absl::StatusOr<wire::FromAgent> message = wire::FromProto(incoming_);
  if (!message.ok()) {
    CountRefusal(refusal::kMalformed, message.status());
    loop_->OnEnd(shared_from_this(), std::move(message).status());
    return;  // without another read
  }
  loop_->OnMessage(shared_from_this(), std::move(message->header), std::move(message->message));
  const std::lock_guard lock(mutex_);
  reading_ = false;
  Read();
}

void Session::OnWriteDone(bool ok) {
  wire::TakeFromGrpc(this);
  loop_->gate().Pass();
  const std::lock_guard lock(mutex_);
  writing_ = false;
  outgoing_.pop_front();
  if (!ok) broken_ = true;
  Continue();
}

void Session::OnDone() {
  wire::TakeFromGrpc(this);
  std::shared_ptr<Session> self;  // the last owner, perhaps; outlives the lock
  const std::lock_guard lock(mutex_);
  ended_ = true;
  place_.Leave();
  self = std::move(self_);
}

}  // namespace ddprun
