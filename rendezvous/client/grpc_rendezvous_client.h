// RendezvousClient over gRPC.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_GRPC_RENDEZVOUS_CLIENT_H_
#define DDPRUN_RENDEZVOUS_CLIENT_GRPC_RENDEZVOUS_CLIENT_H_

#include <memory>
#include <string>

#include "rendezvous/client/rendezvous_client.h"
#include "rendezvous/core/limits.h"
#include "rendezvous/core/types.h"

namespace ddprun {
namespace auth {
class ClientCredentials;
}
class ChannelSource;

// One attempt to connect, without retries. Each client has its own connection, unless
// Options::shared is set. Ignores the environment's proxies: the rendezvous is inside the cluster.
class GrpcRendezvousClient final : public RendezvousClient {
 public:
  struct Options {
    std::string endpoint;  // "HOST:PORT", "[IPV6]:PORT" or "unix:/path"
    // Time limit for connecting. When it is over, Lost says why there is no connection.
    Duration connect_timeout = kDefaultConnectTimeout;
    // The agent's credentials (rendezvous/auth/client_credentials.h); null: none.
    std::shared_ptr<const auth::ClientCredentials> credentials{};
    // A connection shared with other calls that have the same endpoint and credentials. Then Lost
    // never says `refused`, because the refusal might belong to an earlier attempt. Null: the
    // client makes a connection of its own.
    std::shared_ptr<ChannelSource> shared{};
    // A rendezvous that stands by keeps the session until it leads. Nothing may be sent before.
    bool waits = false;
  };

  explicit GrpcRendezvousClient(Options options);
  // Closes.
  ~GrpcRendezvousClient() override;

  void Open(Handler handler) override;
  void Send(const Header& header, const AgentMessage& message) override;
  void Close() override;
  void Abandon() override;

 private:
  const Options options_;
  std::unique_ptr<class AgentSession> session_;  // from Open
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_GRPC_RENDEZVOUS_CLIENT_H_
