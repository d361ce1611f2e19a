// The hash by which the proofs of a Handshake identify a certificate: SHA-256 of its DER form. Any
// thread; no state.
#ifndef DDPRUN_RENDEZVOUS_AUTH_TLS_PEER_CERTIFICATE_H_
#define DDPRUN_RENDEZVOUS_AUTH_TLS_PEER_CERTIFICATE_H_

#include <string>
#include <string_view>

namespace grpc {
class ClientContext;
}

namespace ddprun::auth {

// The hash of the first certificate in `pem`: 32 bytes; "" if there is none.
std::string CertificateSha256(std::string_view pem);

// The hash of the server's certificate on the connection of `call`, which must have ended with OK;
// "" without TLS.
std::string ServerCertificateOf(const grpc::ClientContext& call);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_TLS_PEER_CERTIFICATE_H_
