// gRPC's credentials for connections that speak TLS.
#ifndef DDPRUN_RENDEZVOUS_AUTH_TLS_TRANSPORT_H_
#define DDPRUN_RENDEZVOUS_AUTH_TLS_TRANSPORT_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "rendezvous/auth/tls/identity.h"
#include "rendezvous/auth/tls_files.h"

namespace ddprun::auth {

// Of a refused connection, in gRPC's error text.
inline constexpr char kCertificateChanged[] = "shows another certificate than before";

// For one channel, with these files: the server's certificate must be of the authority, and for the
// host that the channel names.
std::shared_ptr<grpc::ChannelCredentials> VerifiedTls(const TlsPem& pem);

// For one channel to a server whose certificate nobody vouches for: any is taken, and then only
// that one for as long as the channel lives. Whose it is, the proofs of a Handshake must show,
// which cover it.
std::shared_ptr<grpc::ChannelCredentials> UnverifiedTls();

// For one server, which it must outlive. Each new connection gets what `identity` has then. Where
// that has an authority, every client must show a certificate of it.
std::shared_ptr<grpc::ServerCredentials> TlsServer(std::shared_ptr<const TlsIdentity> identity);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_TLS_TRANSPORT_H_
