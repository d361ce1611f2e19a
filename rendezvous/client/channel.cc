#include "rendezvous/client/channel.h"

#include <utility>

#include "absl/strings/match.h"
#include "rendezvous/auth/grpc_log.h"
#include "rendezvous/auth/tls/transport.h"
#include "rendezvous/client/connect_error.h"
#include "rendezvous/wire/limits.h"

namespace ddprun {

using Transport = auth::ClientCredentials::Transport;

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& endpoint,
                                           const auth::ClientCredentials::Transport& transport) {
  auth::QuietGrpc();  // callers report failures
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(wire::kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(wire::kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // Callers retry by themselves; gRPC would copy each message for a retry.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Clusters set http_proxy for the outside world; gRPC would use it for the rendezvous, too.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  // The rendezvous often starts a moment after its agents, so retries come early. gRPC's minimum is
  // 100 ms.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);  // limit of one attempt to connect
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000);
  if (!absl::StartsWith(endpoint, "unix:")) {
    // Ends a connection whose other side lost its power or its network. Heartbeats detect a silent
    // rendezvous much earlier. The timeout is long: a rendezvous to which 16,384 agents connect at
    // once answers pings late, and giving up would make all of them connect again.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 1000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  }
  return grpc::CreateCustomChannel(endpoint, transport.credentials, arguments);
}

Transport TransportOf(const auth::ClientCredentials* credentials) {
  return credentials == nullptr ? Transport{grpc::InsecureChannelCredentials()}
                                : credentials->NewTransport();
}

bool TriesAnotherTransport(const auth::ClientCredentials* credentials, Transport::Tls transport,
                           const grpc::Status& status) {
  if (credentials == nullptr || status.error_code() != grpc::StatusCode::UNAVAILABLE) return false;
  const bool closed = IsClosedByPeer(status.error_message());
  return (closed || SpeaksNoTls(status.error_message())) &&
         credentials->OnUnheard(transport, closed);
}

RenewableChannel::RenewableChannel(std::string endpoint,
                                   std::shared_ptr<const auth::ClientCredentials> credentials)
    : endpoint_(std::move(endpoint)), credentials_(std::move(credentials)) {
  Renew();
}

void RenewableChannel::Renew() {
  const Transport transport = TransportOf(credentials_.get());
  tls_ = transport.tls;
  channel_ = MakeChannel(endpoint_, transport);
  stub_ = v1::Rendezvous::NewStub(channel_);
}

grpc::Status RenewableChannel::Ask(std::chrono::system_clock::time_point deadline,
                                   const std::stop_token& stop) {
  // A Handshake without a scheme only checks that a rendezvous answers. Unlike a Handshake with
  // credentials, it does not wait for a connection.
  grpc::ClientContext context;
  context.set_deadline(deadline);
  const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
  v1::HandshakeReply reply;
  return stub_->Handshake(&context, {}, &reply);
}

grpc::Status RenewableChannel::Reach(std::chrono::system_clock::time_point deadline,
                                     const std::stop_token& stop) {
  const grpc::Status status = Ask(deadline, stop);
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return status;
  const bool again = TriesAnotherTransport(credentials_.get(), tls_, status) ||
                     absl::StrContains(status.error_message(), auth::kCertificateChanged);
  Renew();  // TLS files may have changed, too
  return again ? Ask(deadline, stop) : status;
}

}  // namespace ddprun
