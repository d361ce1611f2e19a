// TlsIdentity: the certificate and key with which this process speaks TLS, and the authority that
// it trusts.
//
// Thread-safe.
#ifndef DDPRUN_RENDEZVOUS_AUTH_TLS_IDENTITY_H_
#define DDPRUN_RENDEZVOUS_AUTH_TLS_IDENTITY_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "rendezvous/auth/tls_files.h"

namespace ddprun::auth {

class TlsIdentity {
 public:
  explicit TlsIdentity(TlsPem pem);

  // What the next connection is made with.
  std::shared_ptr<const TlsPem> current() const;

  // SHA-256 of its certificate, and of those before it, the newest first: older connections live on
  // with what they were made with. At most kMaxServerCertificates (transcript.h).
  std::vector<std::string> shown() const;

  void Replace(TlsPem pem);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const TlsPem> current_;  // guarded by mutex_, and so is what follows
  std::vector<std::string> shown_;
};

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_TLS_IDENTITY_H_
