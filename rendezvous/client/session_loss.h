// What the end of a session means for the agent. Internal to this folder. Pure.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_SESSION_LOSS_H_
#define DDPRUN_RENDEZVOUS_CLIENT_SESSION_LOSS_H_

#include <grpcpp/grpcpp.h>

#include <optional>
#include <string>

#include "rendezvous/auth/client_credentials.h"
#include "rendezvous/client/rendezvous_client.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// What is known of a session when it ends.
struct SessionFacts {
  // Why we have ended it ourselves.
  struct Failure {
    std::string reason;
    bool denied = false;  // as in RendezvousClient::Lost
    bool denied_everywhere = false;
  };

  std::string endpoint;
  TimePoint attempt_started_at{};
  auth::ClientCredentials::Transport::Tls tls{};
  // The next attempt will be made with another transport, for what this one ran into.
  bool tries_another = false;
  bool genuine = false;    // the rendezvous has proven that it knows our secret
  bool connected = false;  // it has answered
  std::optional<Failure> failure{};
};

// `status`: the last of the session's calls. Lost::refused is what gRPC was told by the last
// address that it tried: where there are several, the others may have been silent (RefusalCheck).
RendezvousClient::Lost ExplainLoss(const SessionFacts& facts, const grpc::Status& status);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_SESSION_LOSS_H_
