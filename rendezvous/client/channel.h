// How this folder connects to a rendezvous. Internal to this folder.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_CHANNEL_H_
#define DDPRUN_RENDEZVOUS_CLIENT_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>

#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/auth/client_credentials.h"

namespace ddprun {

// A channel with its own connection, made at the first call. Ignores the environment's proxies.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& endpoint,
                                           const auth::ClientCredentials::Transport& transport);

// `credentials` may be null: no TLS.
auth::ClientCredentials::Transport TransportOf(const auth::ClientCredentials* credentials);
inline std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& endpoint, const auth::ClientCredentials* credentials = nullptr) {
  return MakeChannel(endpoint, TransportOf(credentials));
}

// A channel of `transport` got no answer, for the reason in `status`. True: the next channel of
// these credentials (may be null) will use another transport, and may get an answer.
bool TriesAnotherTransport(const auth::ClientCredentials* credentials,
                           auth::ClientCredentials::Transport::Tls transport,
                           const grpc::Status& status);

// A channel that reports a failed connection at once. It can be replaced by a new channel: with
// another transport, or to a restarted rendezvous with another certificate.
class RenewableChannel {
 public:
  RenewableChannel(std::string endpoint,
                   std::shared_ptr<const auth::ClientCredentials> credentials);

  // Checks that a rendezvous answers. UNAVAILABLE or DEADLINE_EXCEEDED: no rendezvous answers.
  // CANCELLED: `stop` has ended the check. Any other status: a rendezvous answers.
  grpc::Status Reach(std::chrono::system_clock::time_point deadline,
                     const std::stop_token& stop = {});

  // From the last Reach.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  v1::Rendezvous::Stub& stub() { return *stub_; }

 private:
  grpc::Status Ask(std::chrono::system_clock::time_point deadline, const std::stop_token& stop);
  void Renew();

  const std::string endpoint_;
  const std::shared_ptr<const auth::ClientCredentials> credentials_;
  auth::ClientCredentials::Transport::Tls tls_{};
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Rendezvous::Stub> stub_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_CHANNEL_H_
