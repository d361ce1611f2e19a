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

// One attempt to connect: the first failure is the end. Every client has a connection of its own,
// unless it is given one to share.
// Environment variables that redirect gRPC to a proxy are not honoured: agents talk to the
// rendezvous inside a cluster.
class GrpcRendezvousClient final : public RendezvousClient {
 public:
  struct Options {
    std::string endpoint;  // "HOST:PORT", "[IPV6]:PORT" or "unix:/path"
    // For connecting; then Lost says why there is no connection.
    Duration connect_timeout = kDefaultConnectTimeout;
    // How this agent shows who it is (rendezvous/auth/client_credentials.h); null: not at all.
    std::shared_ptr<const auth::ClientCredentials> credentials{};
    // The connection, which other calls may have made before: of the same endpoint and credentials.
    // Then Lost never says `refused`: that may have been an earlier attempt. Null: one of its own.
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
