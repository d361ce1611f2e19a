// Translates the end of a session into RendezvousClient::Lost. Internal to this folder. Pure.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_SESSION_LOSS_H_
#define DDPRUN_RENDEZVOUS_CLIENT_SESSION_LOSS_H_

#include <grpcpp/grpcpp.h>

#include <optional>
#include <string>

#include "rendezvous/auth/client_credentials.h"
#include "rendezvous/client/rendezvous_client.h"
#include "rendezvous/core/types.h"

namespace ddprun {

struct SessionFacts {
  // Why this side ended the session.
  struct Failure {
    std::string reason;
    bool denied = false;  // as in RendezvousClient::Lost
    bool denied_everywhere = false;
  };

  std::string endpoint;
  TimePoint attempt_started_at{};
  auth::ClientCredentials::Transport::Tls tls{};
  // The next attempt will use another transport, because of this failure.
  bool tries_another = false;
  bool genuine = false;    // the rendezvous has proven that it knows the secret
  bool connected = false;  // the rendezvous has answered
  std::optional<Failure> failure{};
};

// `status`: of the session's last call. Lost::refused covers only the last address that gRPC tried;
// if there are several addresses, RefusalCheck must check the others.
RendezvousClient::Lost ExplainLoss(const SessionFacts& facts, const grpc::Status& status);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_SESSION_LOSS_H_
