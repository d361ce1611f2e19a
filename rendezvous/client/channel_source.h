// ChannelSource: the connection to the rendezvous at one endpoint, for all calls that may share it:
// Follow, and one session after the other. So a session costs no TLS handshake where another call
// keeps the connection open. Any thread.
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

// Must be destroyed on a thread that is not gRPC's, after the calls that use it.
class ChannelSource {
 public:
  // What a call uses from its begin to its end.
  struct Connection {
    std::shared_ptr<grpc::Channel> channel;
    auth::ClientCredentials::Transport::Tls tls{};
  };

  // `credentials` may be null: not encrypted.
  ChannelSource(std::string endpoint, std::shared_ptr<const auth::ClientCredentials> credentials);

  const std::string& endpoint() const { return endpoint_; }

  // The present one. It connects with its first call.
  Connection Get();
  // A call on `used` has ended with `status`; `answered`: it had got an answer before. Where the
  // connection is gone, the next Get makes a new one: files of TLS may have changed, and gRPC waits
  // before it connects a second time. True: that one will try another transport.
  bool OnEnd(const Connection& used, const grpc::Status& status, bool answered);

 private:
  const std::string endpoint_;
  const std::shared_ptr<const auth::ClientCredentials> credentials_;
  std::mutex mutex_;
  Connection connection_;  // guarded by mutex_; without a channel: to be made
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_CHANNEL_SOURCE_H_
