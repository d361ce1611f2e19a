#include "rendezvous/etcd/etcd_members.h"

#include <algorithm>
#include <climits>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "etcd/v3.grpc.pb.h"
#include "rendezvous/auth/grpc_log.h"
#include "rendezvous/auth/secret_file.h"
#include "rendezvous/auth/tls/transport.h"
#include "rendezvous/etcd/etcd_error.h"

namespace ddprun::etcd {
namespace {

using Clock = std::chrono::steady_clock;

// A member that answered within this time counts as reachable without a new check. It is longer
// than the interval of a leader's renewals.
constexpr std::chrono::milliseconds kFresh{600};
// The least time limit of a token request, because etcd hashes the password slowly on purpose. If a
// call times out meanwhile, the next call uses the token.
constexpr std::chrono::seconds kTokenPatience{2};

absl::Status CheckOptions(const Options& options) {
  if (options.endpoints.empty()) return absl::InvalidArgumentError("--etcd names no member");
  if (options.cert.empty() != options.key.empty()) {
    return absl::InvalidArgumentError("--etcd-cert and --etcd-key belong together");
  }
  if (!options.cert.empty() && options.ca.empty()) {
    return absl::InvalidArgumentError(
        "--etcd-cert and --etcd-key also need --etcd-ca, which says whose certificates to trust");
  }
  if (options.user.empty() != options.password_file.empty()) {
    return absl::InvalidArgumentError("--etcd-user and --etcd-password-file belong together");
  }
  return absl::OkStatus();
}

// Fails at once on a channel that cannot connect, with the reason.
grpc::Status AskWhether(const Members::ChannelPtr& channel, Deadline deadline) {
  grpc::ClientContext context;
  context.set_deadline(ToGrpc(deadline));
  etcdserverpb::StatusResponse response;
  return etcdserverpb::Maintenance::NewStub(channel)->Status(&context, {}, &response);
}

}  // namespace

gpr_timespec ToGrpc(Deadline deadline) {
  if (deadline == Deadline::max()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now());
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(std::max<std::int64_t>(left.count(), 0), GPR_TIMESPAN));
}

absl::StatusOr<std::shared_ptr<Members>> Members::Create(const Options& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  std::shared_ptr<Members> members(new Members);
  for (const std::string& endpoint : options.endpoints) {
    members->members_.push_back(std::make_unique<Member>());
    members->members_.back()->endpoint = endpoint;
  }
  if (!options.ca.empty()) {
    auto identity = auth::TlsIdentity::Load({options.ca, options.cert, options.key, "--etcd"},
                                            std::chrono::system_clock::now());
    if (!identity.ok()) return identity.status();
    members->identity_ = *std::move(identity);
    members->side_ = options.cert.empty() ? OurSide::kTls : OurSide::kTlsWithCertificate;
  }
  if (!options.user.empty()) {
    members->user_ = options.user;
    members->password_file_ = options.password_file;
    if (auto password = members->Password(); !password.ok()) return password.status();
  }
  return members;
}

absl::StatusOr<std::string> Members::Password() const {
  const auto password =
      auth::ReadCredentialFile("--etcd-password-file", password_file_, auth::Readers::kOwner);
  if (!password.ok()) return password.status();
  return std::string(absl::StripTrailingAsciiWhitespace(*password));
}

Members::ChannelPtr Members::NewChannel(const std::string& endpoint) const {
  auth::QuietGrpc();  // callers report failures themselves
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(INT_MAX);  // a page of List has many values
  arguments.SetMaxSendMessageSize(INT_MAX);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // the caller decides about retries
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);  // for one attempt to connect
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000);
  // etcd closes a connection that pings it more often than every 5 s (--grpc-keepalive-min-time),
  // or without a call. A silent member is noticed earlier by the limits of calls.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 2000);
  if (identity_ == nullptr) {
    return grpc::CreateCustomChannel(endpoint, grpc::InsecureChannelCredentials(), arguments);
  }
  // If the files are invalid now, their earlier content stays in use.
  identity_->Refresh(std::chrono::system_clock::now()).IgnoreError();
  return grpc::CreateCustomChannel(endpoint, auth::VerifiedTls(*identity_->current()), arguments);
}

absl::StatusOr<Members::ChannelPtr> Members::Connect(Member& member, Deadline deadline) {
  ChannelPtr channel;
  {
    const std::lock_guard lock(member.mutex);
    if (member.channel == nullptr) member.channel = NewChannel(member.endpoint);
    channel = member.channel;
  }
  for (;;) {
    const grpc_connectivity_state state = channel->GetState(true);
    if (state == GRPC_CHANNEL_READY) return channel;
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) break;
    if (!channel->WaitForStateChange(state, ToGrpc(deadline))) {
      return absl::AbortedError(absl::StrCat(member.endpoint, ": no connection in time"));
    }
  }
  const grpc::Status status = AskWhether(channel, deadline);
  if (channel->GetState(true) == GRPC_CHANNEL_READY) return channel;
  if (identity_ != nullptr) {  // files of TLS may have changed
    const std::lock_guard lock(member.mutex);
    if (member.channel == channel) member.channel = nullptr;
  }
  return NotConnected(member.endpoint, status.error_message(), side_);
}

absl::StatusOr<std::string> Members::Token(Member& member, const ChannelPtr& channel,
                                           Deadline deadline) {
  const auto known = [&]() -> std::optional<std::string> {
    const std::lock_guard lock(mutex_);
    if (user_.empty() || !token_.empty()) return token_;
    return std::nullopt;
  };
  if (const auto token = known()) return *token;
  // One at a time: more of them would only make etcd slower.
  const std::lock_guard asks(token_mutex_);
  if (const auto token = known()) return *token;
  grpc::ClientContext context;
  context.set_deadline(ToGrpc(std::max(deadline, Clock::now() + kTokenPatience)));
  etcdserverpb::AuthenticateRequest request;
  request.set_name(user_);
  auto password = Password();
  if (!password.ok()) return password.status();
  request.set_password(*std::move(password));
  etcdserverpb::AuthenticateResponse response;
  const grpc::Status status =
      etcdserverpb::Auth::NewStub(channel)->Authenticate(&context, request, &response);
  if (absl::StrContains(status.error_message(), "authentication is not enabled")) return "";
  if (!status.ok()) {
    absl::Status error = ErrorOf(member.endpoint, status);
    // The call that the token is for was not sent.
    if (absl::IsUnknown(error)) error = absl::AbortedError(error.message());
    return error;
  }
  const std::lock_guard lock(mutex_);
  return token_ = response.token();
}

absl::StatusOr<Members::ChannelPtr> Members::Prepare(std::size_t index, Deadline deadline,
                                                     grpc::ClientContext* context) {
  Member& member = *members_[index];
  auto channel = Connect(member, deadline);
  if (!channel.ok()) return channel.status();
  const auto token = Token(member, *channel, deadline);
  if (!token.ok()) return token.status();
  if (!token->empty()) context->AddMetadata("token", *token);
  context->AddMetadata("hasleader", "true");
  return channel;
}

void Members::OnAnswer(std::size_t index, const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) return Disconnect(index);
  if (status.ok() || absl::StartsWith(status.error_message(), "etcdserver:")) {
    const std::lock_guard lock(members_[index]->mutex);
    members_[index]->answered_at = Clock::now();
  }
  if (!IsTokenRefused(status)) return;
  const std::lock_guard lock(mutex_);
  token_.clear();
}

void Members::Disconnect(std::size_t index) {
  const std::lock_guard lock(members_[index]->mutex);
  members_[index]->channel = nullptr;
}

std::size_t Members::preferred() const {
  const std::lock_guard lock(mutex_);
  return preferred_;
}

void Members::Leave(std::size_t index) {
  const std::lock_guard lock(mutex_);
  if (preferred_ == index) preferred_ = (index + 1) % members_.size();
}

absl::Status Members::Probe(std::size_t index, const ChannelPtr& channel, Deadline deadline) {
  {
    const std::lock_guard lock(members_[index]->mutex);
    if (Clock::now() - members_[index]->answered_at < kFresh) return absl::OkStatus();
  }
  const grpc::StatusCode code = AskWhether(channel, deadline).error_code();
  const bool silent =
      code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::DEADLINE_EXCEEDED;
  if (!silent) return absl::OkStatus();
  Disconnect(index);
  return absl::AbortedError(absl::StrCat(endpoint(index), ": it does not answer"));
}

absl::Status Members::CallAt(std::size_t index, bool read_only, Deadline share, Deadline end,
                             const Rpc& rpc) {
  for (int tries = 1;; ++tries) {
    grpc::ClientContext context;
    const auto channel = Prepare(index, share, &context);
    if (!channel.ok()) return channel.status();
    if (!read_only) {
      if (absl::Status silent = Probe(index, *channel, share); !silent.ok()) return silent;
    }
    context.set_deadline(ToGrpc(read_only ? share : end));
    const grpc::Status status = rpc(*channel, &context);
    OnAnswer(index, status);
    if (status.ok()) return absl::OkStatus();
    if (IsTokenRefused(status) && !user_.empty() && tries == 1) continue;
    return ErrorOf(endpoint(index), status);
  }
}

absl::Status Members::Call(bool read_only, std::chrono::milliseconds limit, const Rpc& rpc) {
  const Deadline end = Clock::now() + limit;
  const std::size_t first = preferred();
  std::string failures;
  bool unknown = false;
  bool refused = true;  // by all members tried so far
  for (std::size_t tried = 0; tried < members_.size(); ++tried) {
    const std::size_t index = (first + tried) % members_.size();
    const auto now = Clock::now();
    if (tried > 0 && now >= end) {
      refused = false;
      break;
    }
    const bool last = tried + 1 == members_.size();
    const Deadline share = last ? end : now + std::min<Clock::duration>((end - now) / 2, kPatience);
    const absl::Status status = CallAt(index, read_only, share, end, rpc);
    if (status.ok()) {
      const std::lock_guard lock(mutex_);
      preferred_ = index;
      return status;
    }
    Leave(index);
    const bool refuses = absl::IsUnauthenticated(status);
    if (!absl::IsAborted(status) && !refuses && !(absl::IsUnknown(status) && read_only)) {
      return status;
    }
    unknown = unknown || absl::IsUnknown(status);
    refused = refused && refuses;
    absl::StrAppend(&failures, failures.empty() ? "" : "; ", status.message());
  }
  if (refused) return absl::UnauthenticatedError(failures);
  return unknown ? absl::UnknownError(failures) : absl::AbortedError(failures);
}

absl::Status Members::CallOne(const std::string& endpoint, std::chrono::milliseconds limit,
                              const Rpc& rpc) {
  const Deadline end = Clock::now() + limit;
  for (const std::unique_ptr<Member>& member : members_) {
    if (member->endpoint != endpoint) continue;
    const auto channel = Connect(*member, end);
    if (!channel.ok()) return channel.status();
    grpc::ClientContext context;
    context.set_deadline(ToGrpc(end));
    const grpc::Status status = rpc(*channel, &context);
    return status.ok() ? absl::OkStatus() : ErrorOf(endpoint, status);
  }
  return absl::InvalidArgumentError(absl::StrCat(endpoint, " is no member that was named"));
}

}  // namespace ddprun::etcd
