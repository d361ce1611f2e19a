#include "rendezvous/client/channel_source.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "rendezvous/client/channel.h"

namespace ddprun {

ChannelSource::ChannelSource(std::string endpoint,
                             std::shared_ptr<const auth::ClientCredentials> credentials)
    : endpoint_(std::move(endpoint)), credentials_(std::move(credentials)) {}

ChannelSource::Connection ChannelSource::Get() {
  const std::lock_guard lock(mutex_);
  if (connection_.channel == nullptr) {
    const auto transport = TransportOf(credentials_.get());
    connection_ = {MakeChannel(endpoint_, transport), transport.tls};
  }
  return connection_;
}

bool ChannelSource::OnEnd(const Connection& used, const grpc::Status& status, bool answered) {
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return false;
  const bool another = !answered && TriesAnotherTransport(credentials_.get(), used.tls, status);
  // A READY connection lives: the rendezvous refused only the call.
  const bool lives = used.channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY;
  const std::lock_guard lock(mutex_);
  if ((another || !lives) && connection_.channel == used.channel) connection_ = {};
  return another;
}

}  // namespace ddprun
