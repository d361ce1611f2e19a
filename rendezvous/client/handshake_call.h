// HandshakeCall: the Handshake before a session, if the agent has a token or MUNGE. The rendezvous
// proves its identity in it. The result is the agent's proof for the session. Internal to this
// folder.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_HANDSHAKE_CALL_H_
#define DDPRUN_RENDEZVOUS_CLIENT_HANDSHAKE_CALL_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/auth/client_credentials.h"

namespace ddprun {

// Owned by its session, which destroys it after `done` has returned. Cancel: any thread.
class HandshakeCall {
 public:
  // If `status` is OK, `proof` is the metadata for the Session call, or an error of
  // ClientCredentials::Prove.
  using Done = std::function<void(const grpc::Status& status, absl::StatusOr<std::string> proof)>;

  // `stub` must outlive this object.
  HandshakeCall(v1::Rendezvous::Stub* stub,
                std::shared_ptr<const auth::ClientCredentials> credentials);

  // `done` is called once, on a thread of gRPC.
  void Start(Done done);
  void Cancel() { context_.TryCancel(); }

 private:
  void OnDone(const grpc::Status& status);

  v1::Rendezvous::Stub* const stub_;
  const std::shared_ptr<const auth::ClientCredentials> credentials_;
  Done done_;  // from Start
  // Used by gRPC until OnDone.
  grpc::ClientContext context_;
  v1::HandshakeRequest request_;
  v1::HandshakeReply reply_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_HANDSHAKE_CALL_H_
