#include "rendezvous/client/handshake_call.h"

#include <utility>

#include "rendezvous/auth/tls/peer_certificate.h"
#include "rendezvous/wire/grpc_handoff.h"

namespace ddprun {

HandshakeCall::HandshakeCall(v1::Rendezvous::Stub* stub,
                             std::shared_ptr<const auth::ClientCredentials> credentials)
    : stub_(stub), credentials_(std::move(credentials)) {}

void HandshakeCall::Start(Done done) {
  done_ = std::move(done);
  request_ = credentials_->NewHandshake();
  wire::HandToGrpc(this);
  stub_->async()->Handshake(&context_, &request_, &reply_,
                            [this](grpc::Status status) { OnDone(status); });
}

void HandshakeCall::OnDone(const grpc::Status& status) {
  wire::TakeFromGrpc(this);
  absl::StatusOr<std::string> proof;
  if (status.ok()) {
    proof = credentials_->Prove(request_, reply_, "Session", auth::ServerCertificateOf(context_));
  }
  done_(status, std::move(proof));
}

}  // namespace ddprun
