// Smart pointers for OpenSSL's objects, and OpenSSL's last error as text. Internal to this folder.
#ifndef DDPRUN_RENDEZVOUS_AUTH_OPENSSL_TYPES_H_
#define DDPRUN_RENDEZVOUS_AUTH_OPENSSL_TYPES_H_

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace ddprun::auth {

template <auto function>
struct Free {
  template <class T>
  void operator()(T* object) const {
    function(object);
  }
};

using BioPtr = std::unique_ptr<BIO, Free<BIO_free_all>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, Free<X509_free>>;

// The last error. Clears OpenSSL's error queue.
inline std::string TakeOpensslError() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown error" : reason;
}

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_OPENSSL_TYPES_H_
