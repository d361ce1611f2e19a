// Relay: an attacker that listens on a rendezvous' port, or stands between a client and the
// rendezvous. It accepts connections with a certificate of its own, or without TLS, and passes
// messages on to the real rendezvous.
#ifndef DDPRUN_TESTS_SUPPORT_RELAY_H_
#define DDPRUN_TESTS_SUPPORT_RELAY_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/auth/certificates.h"
#include "rendezvous/auth/crypto.h"
#include "rendezvous/auth/tls/identity.h"
#include "rendezvous/auth/tls/transport.h"
#include "rendezvous/auth/transcript.h"

namespace ddprun {

class Relay final : public v1::Rendezvous::Service {
 public:
  enum class Speaks { kTls, kPlain };

  // `upstream`: "HOST:PORT" of the rendezvous. The relay speaks TLS to it, as agents do. Listens on
  // a free port of loopback.
  Relay(const std::string& upstream, Speaks to_clients)
      : upstream_(v1::Rendezvous::NewStub(grpc::CreateChannel(upstream, auth::UnverifiedTls()))),
        identity_(std::make_shared<auth::TlsIdentity>(auth::MakeSelfSigned("ddprun rendezvous"))),
        credentials_(to_clients == Speaks::kTls ? auth::TlsServer(identity_)
                                                : grpc::InsecureServerCredentials()) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", credentials_, &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  std::string endpoint() const { return "127.0.0.1:" + std::to_string(port_); }
  // SHA-256 of the certificate that clients see.
  std::string certificate() const { return identity_->shown().front(); }
  // The number of the rendezvous' messages that the relay could have rewritten. Without handshakes.
  int heard() const { return heard_; }

  grpc::Status Handshake(grpc::ServerContext* client, const v1::HandshakeRequest* request,
                         v1::HandshakeReply* reply) override {
    return upstream_->Handshake(ContextOf(*client).get(), *request, reply);
  }
  grpc::Status ReportGone(grpc::ServerContext* client, const v1::GoneReport* report,
                          v1::GoneReceived* received) override {
    const grpc::Status status = upstream_->ReportGone(ContextOf(*client).get(), *report, received);
    if (status.ok()) ++heard_;
    return status;
  }
  // Relays the first message of the client of a session, and all messages of the rendezvous.
  grpc::Status Session(
      grpc::ServerContext* client,
      grpc::ServerReaderWriter<v1::RendezvousMessage, v1::AgentMessage>* stream) override {
    const auto context = ContextOf(*client);
    const auto session = upstream_->Session(context.get());
    v1::AgentMessage first;
    if (stream->Read(&first)) session->Write(first);
    v1::RendezvousMessage message;
    while (session->Read(&message)) {
      ++heard_;
      stream->Write(message);
    }
    return session->Finish();
  }

 private:
  // A context with the client's deadline and proof. Its call waits for a connection: on a busy
  // machine a first try may fail, which shows nothing about the rendezvous.
  static std::unique_ptr<grpc::ClientContext> ContextOf(const grpc::ServerContext& client) {
    auto context = grpc::ClientContext::FromServerContext(client);
    context->set_wait_for_ready(true);
    const auto proof = client.client_metadata().find(auth::kProofMetadata);
    if (proof != client.client_metadata().end()) {
      context->AddMetadata(auth::kProofMetadata,
                           std::string(proof->second.data(), proof->second.size()));
    }
    return context;
  }

  const std::unique_ptr<v1::Rendezvous::Stub> upstream_;
  const std::shared_ptr<auth::TlsIdentity> identity_;
  const std::shared_ptr<grpc::ServerCredentials> credentials_;
  std::atomic<int> heard_ = 0;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;  // ends first: it calls the others
};

// The metadata of a client that knows the token but does not check the certificate.
inline std::string NaiveProof(const v1::HandshakeRequest& request, const v1::HandshakeReply& reply,
                              const std::string& certificate, const std::string& secret,
                              const std::string& method) {
  auth::Exchange exchange{request.scheme(), request.name(), request.client_nonce(),
                          reply.server_nonce(), certificate};
  v1::AuthProof proof;
  proof.set_scheme(request.scheme());
  proof.set_name(request.name());
  proof.set_client_nonce(request.client_nonce());
  proof.set_server_nonce(reply.server_nonce());
  proof.set_server_certificate(certificate);
  proof.set_client_proof(
      auth::HmacSha256(secret, auth::Transcript(auth::Side::kClient, exchange, method)));
  return proof.SerializeAsString();
}

}  // namespace ddprun

#endif  // DDPRUN_TESTS_SUPPORT_RELAY_H_
