#include "rendezvous/client/agent_session.h"

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rendezvous/auth/transcript.h"
#include "rendezvous/client/channel.h"
#include "rendezvous/client/connect_error.h"
#include "rendezvous/core/check.h"
#include "rendezvous/wire/grpc_handoff.h"
#include "rendezvous/wire/thin_stream.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {
namespace {

// For addresses that neither take nor refuse a connection; then it is no refusal.
constexpr std::chrono::milliseconds kRefusalCheckLimit{300};

std::string Seconds(Duration duration) {
  return absl::StrCat(std::chrono::duration<double>(duration).count(), "s");
}

}  // namespace

// A call on the same channel that, unlike the session itself, does not wait for a connection: it
// fails with the reason why there is none.
class AgentSession::Probe final
    : public grpc::ClientBidiReactor<v1::AgentMessage, v1::RendezvousMessage> {
 public:
  explicit Probe(AgentSession* session) : session_(session) {}

  void Start() {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
    wire::HandToGrpc(this);
    session_->stub_->async()->Session(&context_, this);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }

  void OnReadInitialMetadataDone(bool ok) override {
    wire::TakeFromGrpc(this);
    if (ok) Cancel();  // connected after all
  }
  void OnDone(const grpc::Status& status) override {
    wire::TakeFromGrpc(this);
    session_->OnProbed(status);
  }

 private:
  AgentSession* const session_;  // owns the probe
  grpc::ClientContext context_;
};

AgentSession::AgentSession(std::string endpoint, Duration connect_timeout, bool retry,
                           std::shared_ptr<const auth::ClientCredentials> credentials,
                           RendezvousClient::Handler handler)
    : endpoint_(std::move(endpoint)),
      connect_timeout_(connect_timeout),
      retry_(retry),
      credentials_(std::move(credentials)),
      handler_(std::move(handler)),
      stub_(v1::Rendezvous::NewStub(MakeChannel(endpoint_, credentials_.get()))) {}

AgentSession::~AgentSession() { DDPRUN_CHECK(callers_ == 0, "Close comes before the end"); }

void AgentSession::Open() {
  started_at_ = std::chrono::steady_clock::now();
  const bool handshakes = credentials_ != nullptr && credentials_->handshakes();
  callers_ = 2;
  opened_ = !handshakes;
  wire::HandToGrpc(this);
  const auto deadline =
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(connect_timeout_);
  connect_alarm_.Set(deadline, [this](bool expired) { OnConnectAlarm(expired); });
  handshakes ? StartHandshake() : StartSession();
}

void AgentSession::StartHandshake() {
  handshake_context_.set_wait_for_ready(retry_);
  handshake_request_ = credentials_->NewHandshake();
  wire::HandToGrpc(this);
  stub_->async()->Handshake(&handshake_context_, &handshake_request_, &handshake_reply_,
                            [this](grpc::Status status) { OnHandshakeDone(status); });
}

void AgentSession::OnHandshakeDone(const grpc::Status& status) {
  wire::TakeFromGrpc(this);
  absl::StatusOr<std::string> proof;
  if (status.ok()) proof = credentials_->Prove(handshake_request_, handshake_reply_, "Session");
  {
    const std::lock_guard lock(mutex_);
    if (status.ok() && !proof.ok()) {
      Fail(absl::StrCat("the rendezvous at ", endpoint_,
                        " is not trusted: ", proof.status().message()),
           absl::IsPermissionDenied(proof.status()));
    }
    genuine_ = status.ok() && proof.ok();
    // From now on, Fail and Close cancel the session's call.
    opened_ = genuine_ && failure_.empty() && !closing_;
    read_ended_ = !opened_;
  }
  if (!opened_) return End(status);
  context_.AddMetadata(auth::kProofMetadata, *proof);
  StartSession();
}

void AgentSession::StartSession() {
  context_.set_wait_for_ready(retry_);
  stub_->async()->Session(&context_, this);
  // Send and Close start operations from outside of the callbacks: the call must not be over before
  // OnReadInitialMetadataDone or OnReadDone has said that it ends.
  AddHold();
  wire::HandToGrpc(this);
  StartCall();
  const std::lock_guard lock(mutex_);
  started_ = true;
  Continue();
}

void AgentSession::Send(const Header& header, const AgentMessage& message) {
  const std::lock_guard lock(mutex_);
  if (closing_ || read_ended_ || !failure_.empty()) return;
  // A heartbeat says that the agent lives now: one that has to wait says nothing, but for its news.
  const auto* const heartbeat = std::get_if<Heartbeat>(&message);
  const bool news = heartbeat != nullptr &&
                    (!heartbeat->states.empty() || heartbeat->failed_checkpoints.count > 0);
  if (heartbeat != nullptr && !news && !outgoing_.empty()) return;
  if (outgoing_.size() >= kMaxQueuedMessages) {
    Fail(absl::StrCat("the rendezvous at ", endpoint_, " does not read: ", kMaxQueuedMessages,
                      " messages wait for it"));
    return;
  }
  outgoing_.push_back(wire::ToProto(header, message));
  Continue();
}

void AgentSession::Close() {
  connect_alarm_.Cancel();
  std::unique_lock lock(mutex_);
  closing_ = true;
  if (probe_ != nullptr) probe_->Cancel();
  const auto left_alone = [this] { return callers_ == 0; };
  if (connected_) {
    Continue();
    callers_changed_.wait_for(lock, kCloseGrace, left_alone);
  }
  if (!left_alone()) Cancel();
  callers_changed_.wait(lock, left_alone);
  if (refusal_check_ != nullptr) refusal_check_->Cancel();
}

void AgentSession::Cancel() { (opened_ ? context_ : handshake_context_).TryCancel(); }

void AgentSession::RemoveCaller() {
  --callers_;
  callers_changed_.notify_all();
}

void AgentSession::Continue() {
  if (!started_ || writing_ || read_ended_ || half_closed_) return;
  if (!outgoing_.empty()) {
    writing_ = true;
    StartWrite(&outgoing_.front());
  } else if (closing_) {
    half_closed_ = true;
    StartWritesDone();
  }
}

void AgentSession::Fail(std::string reason, bool denied) {
  if (!failure_.empty()) return;
  failure_ = std::move(reason);
  denied_ = denied;
  Cancel();
}

void AgentSession::OnConnectAlarm(bool expired) {
  wire::TakeFromGrpc(this);
  const std::lock_guard lock(mutex_);
  if (!expired || connected_ || read_ended_ || closing_) {
    RemoveCaller();
  } else if (!retry_) {
    Fail(absl::StrCat("cannot reach the rendezvous at ", endpoint_, ": no answer within ",
                      Seconds(connect_timeout_)));
    RemoveCaller();
  } else {
    probe_ = std::make_unique<Probe>(this);
    probe_->Start();  // calls instead of the alarm from now on
  }
}

void AgentSession::OnProbed(const grpc::Status& status) {
  const std::lock_guard lock(mutex_);
  if (!connected_) {  // else it was at the last moment
    const bool explained = status.error_code() == grpc::StatusCode::UNAVAILABLE;
    Fail(absl::StrCat(
        "cannot reach the rendezvous at ", endpoint_, " within ", Seconds(connect_timeout_), ": ",
        explained ? RootOfError(status.error_message()) : "no answer",
        explained && IsClosedByPeer(status.error_message()) ? "; does it ask for TLS (--tls-ca)?"
                                                            : ""));
  }
  RemoveCaller();
}

void AgentSession::OnReadInitialMetadataDone(bool ok) {
  wire::TakeFromGrpc(this);
  if (ok) {
    {
      const std::lock_guard lock(mutex_);
      connected_ = true;
    }
    connect_alarm_.Cancel();
    SendAgainSteadily();
    handler_(RendezvousClient::Opened{});  // before the first read: nothing is received earlier
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
      Fail(absl::StrCat("the rendezvous at ", endpoint_,
                        " sent what this version does not accept: ", message.status().message()));
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
  writing_ = false;
  outgoing_.pop_front();
  if (ok) Continue();  // else the call is over, as the read will say
}

RendezvousClient::Lost AgentSession::LossOf(const grpc::Status& status) const {
  const std::string there = absl::StrCat("the rendezvous at ", endpoint_);
  const std::string& text = status.error_message();
  RendezvousClient::Lost lost;
  lost.attempt_started_at = started_at_;
  const auto denied = [&](std::string reason) {
    lost.reason = std::move(reason);
    lost.denied = true;
    return lost;
  };
  if (!failure_.empty()) {
    lost.reason = failure_;
    lost.denied = denied_;
  } else if (status.ok()) {
    lost.reason = absl::StrCat(there, " ended the session");
  } else if (status.error_code() == grpc::StatusCode::PERMISSION_DENIED) {
    return denied(absl::StrCat(there, " refuses us: ", text));
  } else if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
    // Where it knows our secret, all that can be wrong is that the challenge came too late, or from
    // an earlier life of the rendezvous.
    lost = denied(absl::StrCat(there, " refuses us: ", text));
    lost.denied = !genuine_;
  } else if (status.error_code() != grpc::StatusCode::UNAVAILABLE) {
    lost.reason = absl::StrCat("the session with ", there, " ended: ", text);
  } else if (connected_) {
    lost.reason = absl::StrCat("lost ", there, ": ", text);
  } else if (const auto trouble = TlsTrouble(text)) {
    return denied(absl::StrCat("no trust between us and ", there, ": ", *trouble));
  } else if (IsClosedByPeer(text) && credentials_ != nullptr && credentials_->tls()) {
    lost.reason = absl::StrCat(there,
                               " closes the connection after TLS: our certificate (--tls-cert) is "
                               "missing, has expired, or is not of the authority that it trusts");
    lost.closed_after_tls = true;
  } else {
    lost.reason = absl::StrCat("cannot reach ", there, ": ", RootOfError(text),
                               IsClosedByPeer(text) ? "; does it ask for TLS (--tls-ca)?" : "");
  }
  return lost;
}

bool AgentSession::WasRefused(const grpc::Status& status) const {
  // gRPC says so in words only. What it says of others' words (a proxy's, a server's) never is the
  // reason for a connection that was not made.
  return !connected_ && failure_.empty() && status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         absl::StrContains(status.error_message(), "Failed to connect to remote host") &&
         RootOfError(status.error_message()) == RootOfError(strerror(ECONNREFUSED));
}

void AgentSession::OnDone(const grpc::Status& status) {
  wire::TakeFromGrpc(this);
  End(status);
}

void AgentSession::End(const grpc::Status& status) {
  connect_alarm_.Cancel();
  std::optional<RendezvousClient::Lost> lost;
  {
    const std::lock_guard lock(mutex_);
    if (!closing_) {
      lost = LossOf(status);
      lost->refused = WasRefused(status);
    }
    if (lost && lost->refused && !IsOneAddress(endpoint_)) {
      // gRPC tells of the last address that it tried: the others may have been silent.
      refusal_check_ =
          RefusalCheck::Start(endpoint_, kRefusalCheckLimit,
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
