#include "rendezvous/service/job/session.h"

#include <utility>

#include "absl/status/statusor.h"
#include "rendezvous/auth/refusal_counters.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {
namespace {

bool Waits(const SessionCall& call) {
  const auto& metadata = call.context.client_metadata();
  const auto found = metadata.find(wire::kWaitsMetadata);
  return found != metadata.end() && found->second == wire::kWaits;
}

}  // namespace

void Session::Begin(std::shared_ptr<JobLoop> loop, AccessControl::Slot slot,
                    std::unique_ptr<SessionCall> call) {
  const bool waits = Waits(*call);
  const std::shared_ptr<Session> session(
      new Session(std::move(loop), std::move(slot), std::move(call)));
  {
    const std::lock_guard lock(session->mutex_);
    session->self_ = session;
    // Tells the agent that it is connected, before there is a message for it.
    session->call_->responder.SendInitialMetadata(session->Begin(session->metadata_));
  }
  session->loop_->OnOpen(session, waits);
  const std::lock_guard lock(session->mutex_);
  session->Read();
}

Session::Session(std::shared_ptr<JobLoop> loop, AccessControl::Slot slot,
                 std::unique_ptr<SessionCall> call)
    : loop_(std::move(loop)),
      peer_(call->context.peer()),
      slot_(std::move(slot)),
      call_(std::move(call)) {}

void* Session::Begin(Operation<Session>& operation) {
  ++pending_;
  return operation.Tag();
}

void Session::CountRefusal(const char* reason, const absl::Status& why) {
  slot_.CountRefusal(reason, peer_, why);
}

void Session::Send(const Header& header, const RendezvousMessage& message) {
  const std::lock_guard lock(mutex_);
  if (writing_.broken || end_ || ended_) return;
  if (writing_.queue.size() >= kMaxQueuedMessages) {
    writing_.broken = true;
    call_->context.TryCancel();  // the read fails, and the loop gets OnEnd
    return;
  }
  writing_.queue.push_back(wire::ToProto(header, message));
  Continue();
}

void Session::RequestMessage() {
  const std::lock_guard lock(mutex_);
  ++reading_.allowed;
  Read();
}

void Session::Read() {
  if (reading_.active || reading_.allowed == 0 || end_ || ended_) return;
  reading_.active = true;
  --reading_.allowed;
  call_->responder.Read(&reading_.message, Begin(read_));
}

void Session::Close(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  if (end_) return;
  end_ = ToGrpc(status);
  Continue();
}

void Session::Continue() {
  if (writing_.active || ended_) return;
  if (!writing_.queue.empty() && !writing_.broken) {
    writing_.active = true;
    call_->responder.Write(writing_.queue.front(), Begin(write_));
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
    absl::StatusOr<wire::FromAgent> message = wire::FromProto(reading_.message);
    reading_.message.Clear();  // frees memory now: a node's stacks are large
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
    reading_.active = false;
    Read();
  }
  Done(std::move(lock));
}

void Session::OnWritten(bool ok) {
  loop_->completions().Pass();
  std::unique_lock lock(mutex_);
  writing_.active = false;
  writing_.queue.pop_front();
  if (!ok) writing_.broken = true;
  Continue();
  Done(std::move(lock));
}

void Session::OnFinished(bool) { Done(std::unique_lock(mutex_)); }

void Session::Done(std::unique_lock<std::mutex> lock) {
  if (--pending_ > 0 || !ended_) return;
  slot_.Leave();
  // Released after the lock: the last owner destroys mutex_.
  const std::shared_ptr<Session> self = std::move(self_);
  const std::unique_ptr<SessionCall> call = std::move(call_);
  lock.unlock();
}

}  // namespace ddprun
