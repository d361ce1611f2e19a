#include "rendezvous/client/agent_session.h"

#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
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
                           RendezvousClient::Handler handler)
    : endpoint_(std::move(endpoint)),
      connect_timeout_(connect_timeout),
      retry_(retry),
      handler_(std::move(handler)),
      stub_(v1::Rendezvous::NewStub(MakeChannel(endpoint_))) {}

AgentSession::~AgentSession() { DDPRUN_CHECK(callers_ == 0, "Close comes before the end"); }

void AgentSession::Open() {
  started_at_ = std::chrono::steady_clock::now();
  context_.set_wait_for_ready(retry_);
  stub_->async()->Session(&context_, this);
  // Send and Close start operations from outside of the callbacks: the call must not be over before
  // OnReadInitialMetadataDone or OnReadDone has said that it ends.
  AddHold();
  callers_ = 2;
  wire::HandToGrpc(this);
  const auto deadline =
      std::chrono::system_clock::now() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(connect_timeout_);
  connect_alarm_.Set(deadline, [this](bool expired) { OnConnectAlarm(expired); });
  StartCall();
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
  connect_alarm_.Cancel();
  std::unique_lock lock(mutex_);
  closing_ = true;
  if (probe_ != nullptr) probe_->Cancel();
  const auto left_alone = [this] { return callers_ == 0; };
  if (connected_) {
    Continue();
    callers_changed_.wait_for(lock, kCloseGrace, left_alone);
  }
  if (!left_alone()) context_.TryCancel();
  callers_changed_.wait(lock, left_alone);
  if (refusal_check_ != nullptr) refusal_check_->Cancel();
}

void AgentSession::RemoveCaller() {
  --callers_;
  callers_changed_.notify_all();
}

void AgentSession::Continue() {
  if (writing_ || read_ended_ || half_closed_) return;
  if (!outgoing_.empty()) {
    writing_ = true;
    StartWrite(&outgoing_.front());
  } else if (closing_) {
    half_closed_ = true;
    StartWritesDone();
  }
}

void AgentSession::Fail(std::string reason) {
  if (!failure_.empty()) return;
  failure_ = std::move(reason);
  context_.TryCancel();
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
    Fail(absl::StrCat("cannot reach the rendezvous at ", endpoint_, " within ",
                      Seconds(connect_timeout_), ": ",
                      explained ? RootOfError(status.error_message()) : "no answer"));
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

std::string AgentSession::LostReason(const grpc::Status& status) const {
  if (!failure_.empty()) return failure_;
  if (status.ok()) return absl::StrCat("the rendezvous at ", endpoint_, " ended the session");
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) {
    return absl::StrCat("the session with the rendezvous at ", endpoint_,
                        " ended: ", status.error_message());
  }
  if (connected_) {
    return absl::StrCat("lost the rendezvous at ", endpoint_, ": ", status.error_message());
  }
  return absl::StrCat("cannot reach the rendezvous at ", endpoint_, ": ",
                      RootOfError(status.error_message()));
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
  connect_alarm_.Cancel();
  std::string reason;
  bool refused = false;
  {
    const std::lock_guard lock(mutex_);
    if (!closing_) reason = LostReason(status);
    refused = WasRefused(status);
    if (!reason.empty() && refused && !IsOneAddress(endpoint_)) {
      // gRPC tells of the last address that it tried: the others may have been silent.
      refusal_check_ = RefusalCheck::Start(
          endpoint_, kRefusalCheckLimit,
          [handler = handler_, reason, started_at = started_at_](bool everywhere) {
            handler(RendezvousClient::Lost{reason, everywhere, started_at});
          });
      reason.clear();
    }
  }
  if (!reason.empty()) handler_(RendezvousClient::Lost{std::move(reason), refused, started_at_});
  const std::lock_guard lock(mutex_);
  RemoveCaller();
}

}  // namespace ddprun
