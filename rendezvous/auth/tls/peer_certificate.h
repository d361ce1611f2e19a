// By what a certificate is known in proofs: the SHA-256 of its DER. Any thread; no state.
#ifndef DDPRUN_RENDEZVOUS_AUTH_TLS_PEER_CERTIFICATE_H_
#define DDPRUN_RENDEZVOUS_AUTH_TLS_PEER_CERTIFICATE_H_

#include <string>
#include <string_view>

namespace grpc {
class ClientContext;
}

namespace ddprun::auth {

// Of the first certificate in `pem`: 32 bytes; "" where there is none.
std::string CertificateSha256(std::string_view pem);

// Of the certificate that the server has shown on the connection that carried `call`, which has
// ended well; "" where that did not speak TLS.
std::string ServerCertificateOf(const grpc::ClientContext& call);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_TLS_PEER_CERTIFICATE_H_
