// gRPC credentials for connections with TLS.
#ifndef DDPRUN_RENDEZVOUS_AUTH_TLS_TRANSPORT_H_
#define DDPRUN_RENDEZVOUS_AUTH_TLS_TRANSPORT_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "rendezvous/auth/tls/identity.h"
#include "rendezvous/auth/tls_files.h"

namespace ddprun::auth {

// Part of gRPC's error text if a channel of UnverifiedTls() refused a certificate that is not its
// first one.
inline constexpr char kCertificateChanged[] = "shows another certificate than before";

// For one channel. The server's certificate must be signed by the authority in `pem` and be valid
// for the channel's host.
std::shared_ptr<grpc::ChannelCredentials> VerifiedTls(const TlsPem& pem);

// For one channel to a server with a self-signed certificate. The channel's first connection
// accepts any certificate; later connections accept only the same one. The proofs of a Handshake
// cover the certificate, and show that it belongs to the rendezvous.
std::shared_ptr<grpc::ChannelCredentials> UnverifiedTls();

// For one server; must outlive the server. Each new connection uses the current content of
// `identity`. If the content has an authority, every client must show a certificate that the
// authority has signed.
std::shared_ptr<grpc::ServerCredentials> TlsServer(std::shared_ptr<const TlsIdentity> identity);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_TLS_TRANSPORT_H_
