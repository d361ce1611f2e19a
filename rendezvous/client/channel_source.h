// ChannelSource: one shared connection to the rendezvous at one endpoint, for Follow and for other
// calls. While one call keeps the connection open, another needs no TLS handshake. Any thread.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_CHANNEL_SOURCE_H_
#define DDPRUN_RENDEZVOUS_CLIENT_CHANNEL_SOURCE_H_

#include <memory>
#include <mutex>
#include <string>

#include "rendezvous/auth/client_credentials.h"

namespace grpc {
class Channel;
class Status;
}  // namespace grpc

namespace ddprun {

// Must be destroyed after the calls that use it, and not on a thread of gRPC.
class ChannelSource {
 public:
  // A call uses the same Connection from its start to its end.
  struct Connection {
    std::shared_ptr<grpc::Channel> channel;
    auth::ClientCredentials::Transport::Tls tls{};
  };

  // `credentials` may be null: no TLS.
  ChannelSource(std::string endpoint, std::shared_ptr<const auth::ClientCredentials> credentials);

  const std::string& endpoint() const { return endpoint_; }

  // The current connection. It connects at its first call.
  Connection Get();
  // A call on `used` has ended with `status`. `answered`: the call had received an answer. If the
  // connection is gone, the next Get makes a new one, because TLS files may have changed and gRPC
  // delays reconnecting. True: the new connection will use another transport.
  bool OnEnd(const Connection& used, const grpc::Status& status, bool answered);

 private:
  const std::string endpoint_;
  const std::shared_ptr<const auth::ClientCredentials> credentials_;
  std::mutex mutex_;
  Connection connection_;  // guarded by mutex_; no channel: not made yet
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_CHANNEL_SOURCE_H_
