#include "rendezvous/client/agent_session.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "rendezvous/auth/client_credentials.h"
#include "rendezvous/auth/transcript.h"
#include "rendezvous/client/channel.h"
#include "rendezvous/core/check.h"
#include "rendezvous/wire/grpc_handoff.h"
#include "rendezvous/wire/thin_stream.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {
namespace {

// Limit for addresses that neither accept nor refuse a connection; after it they do not count as
// refusing.
constexpr std::chrono::milliseconds kRefusalCheckLimit{300};

ChannelSource::Connection ConnectionOf(const GrpcRendezvousClient::Options& options) {
  if (options.shared != nullptr) return options.shared->Get();
  const auto transport = TransportOf(options.credentials.get());
  return {MakeChannel(options.endpoint, transport), transport.tls};
}

}  // namespace

AgentSession::AgentSession(GrpcRendezvousClient::Options options, RendezvousClient::Handler handler)
    : AgentSession(options, std::move(handler), ConnectionOf(options)) {}

AgentSession::AgentSession(GrpcRendezvousClient::Options options, RendezvousClient::Handler handler,
                           ChannelSource::Connection connection)
    : options_(std::move(options)),
      handler_(std::move(handler)),
      connection_(std::move(connection)),
      stub_(v1::Rendezvous::NewStub(connection_.channel)),
      deadline_({options_.endpoint, options_.connect_timeout}),
      handshake_(options_.credentials != nullptr && options_.credentials->handshakes()
                     ? std::make_unique<HandshakeCall>(stub_.get(), options_.credentials)
                     : nullptr) {
  facts_.endpoint = options_.endpoint;
  facts_.tls = connection_.tls;
}

AgentSession::~AgentSession() { DDPRUN_CHECK(callers_ == 0, "Close comes before the end"); }

void AgentSession::Open() {
  facts_.attempt_started_at = std::chrono::steady_clock::now();
  callers_ = 2;
  deadline_.Start([this](std::optional<std::string> reason) { OnConnectDeadline(reason); });
  if (handshake_ == nullptr) return StartSession();
  handshake_->Start([this](const grpc::Status& status, const absl::StatusOr<std::string>& proof) {
    OnHandshakeDone(status, proof);
  });
}

void AgentSession::OnHandshakeDone(const grpc::Status& status,
                                   const absl::StatusOr<std::string>& proof) {
  bool goes_on = false;
  {
    const std::lock_guard lock(mutex_);
    if (status.ok() && !proof.ok()) {
      const bool munged_is_away = absl::IsFailedPrecondition(proof.status());
      Fail({absl::StrCat("the rendezvous at ", options_.endpoint,
                         " is not trusted: ", proof.status().message()),
            munged_is_away || absl::IsPermissionDenied(proof.status()), munged_is_away});
    }
    facts_.genuine = status.ok() && proof.ok();
    goes_on = facts_.genuine && !facts_.failure && !closing_;
    read_ended_ = !goes_on;
  }
  if (!goes_on) return End(status);
  context_.AddMetadata(auth::kProofMetadata, *proof);
  StartSession();
}

void AgentSession::StartSession() {
  if (options_.waits) context_.AddMetadata(wire::kWaitsMetadata, wire::kWaits);
  stub_->async()->Session(&context_, this);
  // Send and Close start operations outside gRPC's callbacks. The hold keeps the call from ending
  // before OnReadInitialMetadataDone or OnReadDone has reported its end.
  AddHold();
  wire::HandToGrpc(this);
  StartCall();
  const std::lock_guard lock(mutex_);
  writing_.allowed = true;
  Continue();
}

void AgentSession::Send(const Header& header, const AgentMessage& message) {
  const std::lock_guard lock(mutex_);
  if (closing_ || read_ended_ || facts_.failure) return;
  if (std::holds_alternative<LogPiece>(message)) {
    writing_.logs.push_back(wire::ToProto(header, message));
    return Continue();
  }
  // A heartbeat says that the agent is alive now. So a heartbeat behind another one is dropped,
  // unless it carries news.
  const auto* const heartbeat = std::get_if<Heartbeat>(&message);
  const bool news = heartbeat != nullptr &&
                    (!heartbeat->states.empty() || heartbeat->failed_checkpoints.count > 0);
  const auto is_heartbeat = [](const v1::AgentMessage& one) { return one.has_heartbeat(); };
  if (heartbeat != nullptr && !news &&
      std::any_of(writing_.queue.begin(), writing_.queue.end(), is_heartbeat)) {
    return;
  }
  if (writing_.queue.size() >= kMaxQueuedMessages) {
    Fail({absl::StrCat("the rendezvous at ", options_.endpoint,
                       " does not read: ", kMaxQueuedMessages, " messages wait for it")});
    return;
  }
  writing_.queue.push_back(wire::ToProto(header, message));
  Continue();
}

void AgentSession::Close() { Leave(kCloseGrace); }

void AgentSession::Abandon() { Leave(std::chrono::milliseconds(0)); }

void AgentSession::Leave(std::chrono::milliseconds grace) {
  deadline_.Cancel();
  std::unique_lock lock(mutex_);
  closing_ = true;
  const auto left_alone = [this] { return callers_ == 0; };
  if (facts_.connected && grace.count() > 0) {
    Continue();
    callers_changed_.wait_for(lock, grace, left_alone);
  }
  if (!left_alone()) Cancel();
  callers_changed_.wait(lock, left_alone);
  if (refusal_check_ != nullptr) refusal_check_->Cancel();
}

void AgentSession::Cancel() {
  // gRPC cancels a call that has not started yet as soon as it starts.
  if (handshake_ != nullptr) handshake_->Cancel();
  context_.TryCancel();
}

void AgentSession::RemoveCaller() {
  --callers_;
  callers_changed_.notify_all();
}

void AgentSession::Continue() {
  if (!writing_.allowed || writing_.active != nullptr || writing_.half_closed || read_ended_)
    return;
  std::deque<v1::AgentMessage>& next = writing_.queue.empty() ? writing_.logs : writing_.queue;
  if (!next.empty()) {
    writing_.active = &next;
    grpc::WriteOptions write;
    if (next.size() > 1) write.set_buffer_hint();  // queued messages travel together
    StartWrite(&next.front(), write);
  } else if (closing_) {
    writing_.half_closed = true;
    StartWritesDone();
  }
}

void AgentSession::Fail(SessionFacts::Failure failure) {
  if (facts_.failure) return;
  facts_.failure = std::move(failure);
  Cancel();
}

void AgentSession::OnConnectDeadline(std::optional<std::string> reason) {
  const std::lock_guard lock(mutex_);
  // The session may have connected at the last moment.
  if (reason && !facts_.connected && !read_ended_ && !closing_) Fail({*std::move(reason)});
  RemoveCaller();
}

void AgentSession::OnReadInitialMetadataDone(bool ok) {
  wire::TakeFromGrpc(this);
  if (ok) {
    {
      const std::lock_guard lock(mutex_);
      facts_.connected = true;
    }
    deadline_.Cancel();
    SendAgainSteadily();
    // Before the first read, so that Opened comes before Received.
    handler_(RendezvousClient::Opened{});
    const std::lock_guard lock(mutex_);
    StartRead(&incoming_);
    return;
  }
  const std::lock_guard lock(mutex_);
  read_ended_ = true;
  RemoveHold();
}

void AgentSession::OnReadDone(bool ok) {
  wire::TakeFromGrpc(this);
  if (ok) {
    absl::StatusOr<wire::FromRendezvous> message = wire::FromProto(incoming_);
    if (message.ok()) {
      handler_(RendezvousClient::Received{std::move(message->header), std::move(message->message)});
    } else {
      const std::lock_guard lock(mutex_);
      Fail({absl::StrCat(
          "the rendezvous at ", options_.endpoint,
          " sent a message that this version refuses: ", message.status().message())});
    }
    const std::lock_guard lock(mutex_);
    StartRead(&incoming_);
    return;
  }
  const std::lock_guard lock(mutex_);
  read_ended_ = true;
  RemoveHold();
}

void AgentSession::OnWriteDone(bool ok) {
  wire::TakeFromGrpc(this);
  const std::lock_guard lock(mutex_);
  std::exchange(writing_.active, nullptr)->pop_front();
  if (ok) Continue();  // not ok: the call is over, and OnReadDone reports it
}

void AgentSession::OnDone(const grpc::Status& status) {
  wire::TakeFromGrpc(this);
  End(status);
}

void AgentSession::End(const grpc::Status& status) {
  deadline_.Cancel();
  std::optional<RendezvousClient::Lost> lost;
  {
    const std::lock_guard lock(mutex_);
    const bool answered = facts_.connected || closing_;
    facts_.tries_another =
        options_.shared != nullptr
            ? options_.shared->OnEnd(connection_, status, answered)
            : !answered && TriesAnotherTransport(options_.credentials.get(), facts_.tls, status);
    if (!closing_) lost = ExplainLoss(facts_, status);
    if (lost && options_.shared != nullptr) lost->refused = false;
    if (lost && lost->refused && !IsOneAddress(options_.endpoint)) {
      // gRPC reports only the last address that it tried; other addresses may have been silent.
      refusal_check_ =
          RefusalCheck::Start(options_.endpoint, kRefusalCheckLimit,
                              [handler = handler_, lost = *lost](bool everywhere) mutable {
                                lost.refused = everywhere;
                                handler(std::move(lost));
                              });
      lost.reset();
    }
  }
  if (lost) handler_(*std::move(lost));
  const std::lock_guard lock(mutex_);
  RemoveCaller();
}

}  // namespace ddprun
