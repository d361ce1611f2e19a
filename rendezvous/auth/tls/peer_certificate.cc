#include "rendezvous/auth/tls/peer_certificate.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/client_context.h>
#include <grpcpp/security/auth_context.h>
#include <openssl/pem.h>

#include "rendezvous/auth/crypto.h"
#include "rendezvous/auth/openssl_types.h"

namespace ddprun::auth {

std::string CertificateSha256(std::string_view pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const CertificatePtr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (certificate == nullptr) return "";
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate.get(), &der);
  if (size <= 0) return "";
  std::string hash = Sha256({reinterpret_cast<const char*>(der), static_cast<std::size_t>(size)});
  OPENSSL_free(der);
  return hash;
}

std::string ServerCertificateOf(const grpc::ClientContext& call) {
  const auto context = call.auth_context();
  if (context == nullptr) return "";
  for (const grpc::string_ref& pem :
       context->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME)) {
    return CertificateSha256({pem.data(), pem.size()});
  }
  return "";
}

}  // namespace ddprun::auth
