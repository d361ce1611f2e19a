// How this folder connects to a rendezvous. Internal to it.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_CHANNEL_H_
#define DDPRUN_RENDEZVOUS_CLIENT_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/auth/client_credentials.h"

namespace ddprun {

// A connection of its own, made with the first call. Proxies of the environment are not honoured.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& endpoint,
                                           const auth::ClientCredentials::Transport& transport);

// `credentials` may be null: not encrypted.
auth::ClientCredentials::Transport TransportOf(const auth::ClientCredentials* credentials);
inline std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& endpoint, const auth::ClientCredentials* credentials = nullptr) {
  return MakeChannel(endpoint, TransportOf(credentials));
}

// A channel of `transport` got no answer, for the reason in `status`. Whether the next one that
// these credentials (may be null) make will be another one, and may get one.
bool TriesAnotherTransport(const auth::ClientCredentials* credentials,
                           auth::ClientCredentials::Transport::Tls transport,
                           const grpc::Status& status);

// A channel that says at once why it does not connect, and can be made anew: with another
// transport, or to a rendezvous that was started again and has another certificate.
class RenewableChannel {
 public:
  RenewableChannel(std::string endpoint,
                   std::shared_ptr<const auth::ClientCredentials> credentials);

  // Asks whether somebody is there, where that is not known. UNAVAILABLE or DEADLINE_EXCEEDED if
  // not.
  grpc::Status Reach(std::chrono::system_clock::time_point deadline);

  // From the last Reach.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  v1::Rendezvous::Stub& stub() { return *stub_; }

 private:
  grpc::Status Ask(std::chrono::system_clock::time_point deadline);
  void Renew();

  const std::string endpoint_;
  const std::shared_ptr<const auth::ClientCredentials> credentials_;
  auth::ClientCredentials::Transport::Tls tls_{};
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Rendezvous::Stub> stub_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_CHANNEL_H_
