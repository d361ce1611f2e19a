#include "rendezvous/client/agent_session.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rendezvous/auth/transcript.h"
#include "rendezvous/client/channel.h"
#include "rendezvous/core/check.h"
#include "rendezvous/wire/grpc_handoff.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {
namespace {

// gRPC's "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:29400: Failed to
// connect to remote host: Connection refused" as "connection refused".
std::string RootOfError(absl::string_view message) {
  const std::size_t colon = message.rfind(": ");
  if (colon != absl::string_view::npos) message.remove_prefix(colon + 2);
  return absl::AsciiStrToLower(message);
}

// What is wrong with TLS, if anything is: gRPC has no code for it, only words.
std::optional<std::string> TlsTrouble(absl::string_view message) {
  const auto has = [&](absl::string_view words) { return absl::StrContains(message, words); };
  if (has("wrong version number")) {
    return "it does not speak TLS: start it with --tls-cert and --tls-key, or leave --tls-ca out";
  }
  if (has("Hostname Verification") || has("not in peer certificate") || has("Cannot check peer")) {
    return "its certificate is for another host: name this one in `ddprun certs DIR --host`";
  }
  if (has("certificate verify failed")) {
    return "its certificate has expired, or is not of the authority in --tls-ca";
  }
  if (has("Ssl handshake failed") || has("SSL_ERROR")) return std::string(message);
  return std::nullopt;
}

bool IsClosedByPeer(absl::string_view message) {
  return absl::StrContains(message, "Socket closed") ||
         absl::StrContains(message, "onnection reset");
}

constexpr std::chrono::milliseconds kProbeTime{500};
// Trouble with TLS does not get better by waiting: it is looked for while there is no connection.
constexpr Duration kTlsProbeInterval = std::chrono::seconds(1);
constexpr int kClosedOften = 3;

std::string Seconds(Duration duration) {
  return absl::StrCat(std::chrono::duration<double>(duration).count(), "s");
}

}  // namespace

// A call on the same channel that, unlike the session itself, does not wait for a connection: it
// fails with the reason why there is none.
class AgentSession::Probe {
 public:
  explicit Probe(AgentSession* session) : session_(session) {}

  void Start() {
    context_.set_deadline(std::chrono::system_clock::now() + kProbeTime);
    wire::HandToGrpc(this);
    session_->stub_->async()->Handshake(&context_, &request_, &reply_, [this](grpc::Status status) {
      wire::TakeFromGrpc(this);
      session_->OnProbed(status);
    });
  }
  void Cancel() { context_.TryCancel(); }

 private:
  AgentSession* const session_;  // owns the probe
  grpc::ClientContext context_;
  v1::HandshakeRequest request_;  // empty: only whether it arrives matters
  v1::HandshakeReply reply_;
};

AgentSession::AgentSession(std::string endpoint, Duration connect_timeout,
                           std::shared_ptr<const auth::ClientCredentials> credentials,
                           RendezvousClient::Handler handler)
    : endpoint_(std::move(endpoint)),
      connect_timeout_(connect_timeout),
      credentials_(std::move(credentials)),
      handler_(std::move(handler)),
      stub_(v1::Rendezvous::NewStub(MakeChannel(endpoint_, credentials_.get()))) {}

AgentSession::~AgentSession() { DDPRUN_CHECK(callers_ == 0, "Close comes before the end"); }

void AgentSession::Open() {
  connect_deadline_ = std::chrono::steady_clock::now() + connect_timeout_;
  const bool handshakes = credentials_ != nullptr && credentials_->handshakes();
  {
    const std::lock_guard lock(mutex_);
    callers_ = 2;
    opened_ = !handshakes;
    SetConnectAlarm();
  }
  handshakes ? StartHandshake() : StartSession();
}

void AgentSession::StartHandshake() {
  handshake_context_.set_wait_for_ready(true);
  handshake_request_ = credentials_->NewHandshake();
  wire::HandToGrpc(this);
  stub_->async()->Handshake(&handshake_context_, &handshake_request_, &handshake_reply_,
                            [this](grpc::Status status) { OnHandshakeDone(status); });
}

void AgentSession::OnHandshakeDone(const grpc::Status& status) {
  wire::TakeFromGrpc(this);
  absl::StatusOr<std::string> proof;
  if (status.ok()) proof = credentials_->Prove(handshake_request_, handshake_reply_, "Session");
  std::optional<RendezvousClient::Lost> lost;
  {
    const std::lock_guard lock(mutex_);
    if (!status.ok() || closing_ || !failure_.empty()) {
      lost = LossOf(status);
    } else if (!proof.ok()) {
      const std::string what = absl::StrCat("the rendezvous at ", endpoint_, " is not trusted: ");
      lost = {absl::StrCat(what, proof.status().message()),
              absl::IsPermissionDenied(proof.status())};
    } else {
      genuine_ = true;
      opened_ = true;  // from now on, Fail and Close cancel the session's call
    }
  }
  if (lost) return EndUnopened(*std::move(lost));
  context_.AddMetadata(auth::kProofMetadata, *proof);
  StartSession();
}

void AgentSession::EndUnopened(RendezvousClient::Lost lost) {
  bool tell = false;
  {
    const std::lock_guard lock(mutex_);
    read_ended_ = true;
    tell = !closing_;
    connect_alarm_->Cancel();
  }
  if (tell) handler_(std::move(lost));
  const std::lock_guard lock(mutex_);
  RemoveCaller();
}

void AgentSession::StartSession() {
  context_.set_wait_for_ready(true);
  stub_->async()->Session(&context_, this);
  // Send and Close start operations from outside of the callbacks: the call must not be over before
  // OnReadDone has said that it ends.
  AddHold();
  StartRead(&incoming_);
  wire::HandToGrpc(this);
  StartCall();
  const std::lock_guard lock(mutex_);
  started_ = true;
  Continue();
}

void AgentSession::SetConnectAlarm() {
  const auto now = std::chrono::steady_clock::now();
  Duration wait = std::max(Duration(0), Duration(connect_deadline_ - now));
  if (tls()) wait = std::min(wait, kTlsProbeInterval);
  // A new one each time: an alarm is in use until its callback has returned.
  connect_alarm_ = std::make_unique<grpc::Alarm>();
  wire::HandToGrpc(this);
  connect_alarm_->Set(std::chrono::system_clock::now() +
                          std::chrono::duration_cast<std::chrono::system_clock::duration>(wait),
                      [this](bool expired) { OnConnectAlarm(expired); });
}

void AgentSession::Send(const Header& header, const AgentMessage& message) {
  const std::lock_guard lock(mutex_);
  if (closing_ || read_ended_ || !failure_.empty()) return;
  // A heartbeat says that the agent lives now: one that has to wait says nothing.
  if (std::holds_alternative<Heartbeat>(message) && !outgoing_.empty()) return;
  if (outgoing_.size() >= kMaxQueuedMessages) {
    Fail(absl::StrCat("the rendezvous at ", endpoint_, " does not read: ", kMaxQueuedMessages,
                      " messages wait for it"));
    return;
  }
  outgoing_.push_back(wire::ToProto(header, message));
  Continue();
}

void AgentSession::Close() {
  std::unique_lock lock(mutex_);
  connect_alarm_->Cancel();
  closing_ = true;
  if (probe_ != nullptr) probe_->Cancel();
  const auto left_alone = [this] { return callers_ == 0; };
  if (connected_) {
    Continue();
    callers_changed_.wait_for(lock, kCloseGrace, left_alone);
  }
  if (!left_alone()) Cancel();
  callers_changed_.wait(lock, left_alone);
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

void AgentSession::Fail(std::string reason, bool refused) {
  if (!failure_.empty()) return;
  failure_ = std::move(reason);
  refused_ = refused;
  Cancel();
}

void AgentSession::OnConnectAlarm(bool expired) {
  wire::TakeFromGrpc(this);
  const std::lock_guard lock(mutex_);
  if (expired && !connected_ && !read_ended_ && !closing_) {
    probe_ = std::make_unique<Probe>(this);
    probe_->Start();  // calls instead of the alarm from now on
  } else {
    RemoveCaller();
  }
}

void AgentSession::OnProbed(const grpc::Status& status) {
  const std::lock_guard lock(mutex_);
  if (connected_ || read_ended_ || closing_) {  // at the last moment
    RemoveCaller();
    return;
  }
  const std::string text =
      status.error_code() == grpc::StatusCode::UNAVAILABLE ? status.error_message() : std::string();
  const bool over = std::chrono::steady_clock::now() >= connect_deadline_;
  if (IsClosedByPeer(text)) ++closed_by_peer_;
  if (const auto trouble = TlsTrouble(text)) {
    Fail(absl::StrCat("no trust between us and the rendezvous at ", endpoint_, ": ", *trouble),
         true);
  } else if (tls() && closed_by_peer_ >= (over ? 1 : kClosedOften)) {
    Fail(absl::StrCat("the rendezvous at ", endpoint_, " closes the connection after TLS: ",
                      "our certificate (--tls-cert) is missing, has expired, or is not of the "
                      "authority that it trusts"),
         true);
  } else if (over) {
    Fail(absl::StrCat("cannot reach the rendezvous at ", endpoint_, " within ",
                      Seconds(connect_timeout_), ": ",
                      text.empty() ? "no answer" : RootOfError(text),
                      IsClosedByPeer(text) ? "; does it ask for TLS (--tls-ca)?" : ""));
  } else {
    SetConnectAlarm();
    return;
  }
  RemoveCaller();
}

void AgentSession::OnReadInitialMetadataDone(bool ok) {
  wire::TakeFromGrpc(this);
  if (!ok) return;
  const std::lock_guard lock(mutex_);
  connected_ = true;
  connect_alarm_->Cancel();
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
  if (!failure_.empty()) return {failure_, refused_};
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return {absl::StrCat(there, " ended the session")};
    case grpc::StatusCode::UNAUTHENTICATED:
      // Where it knows our secret, all that can be wrong is that the challenge came too late, or
      // from an earlier life of the rendezvous.
      return {absl::StrCat(there, " refuses us: ", status.error_message()), !genuine_};
    case grpc::StatusCode::PERMISSION_DENIED:
      return {absl::StrCat(there, " refuses us: ", status.error_message()), true};
    case grpc::StatusCode::UNAVAILABLE:
      break;
    default:
      return {absl::StrCat("the session with ", there, " ended: ", status.error_message())};
  }
  if (connected_) return {absl::StrCat("lost ", there, ": ", status.error_message())};
  if (const auto trouble = TlsTrouble(status.error_message())) {
    return {absl::StrCat("no trust between us and ", there, ": ", *trouble), true};
  }
  return {absl::StrCat("cannot reach ", there, ": ", RootOfError(status.error_message()))};
}

void AgentSession::OnDone(const grpc::Status& status) {
  wire::TakeFromGrpc(this);
  std::optional<RendezvousClient::Lost> lost;
  {
    const std::lock_guard lock(mutex_);
    connect_alarm_->Cancel();
    if (!closing_) lost = LossOf(status);
  }
  if (lost) handler_(*std::move(lost));
  const std::lock_guard lock(mutex_);
  RemoveCaller();
}

}  // namespace ddprun
