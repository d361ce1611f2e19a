#include "rendezvous/auth/tls/identity.h"

#include <algorithm>
#include <utility>

#include "rendezvous/auth/tls/peer_certificate.h"
#include "rendezvous/auth/transcript.h"

namespace ddprun::auth {

TlsIdentity::TlsIdentity(TlsPem pem) { Replace(std::move(pem)); }

std::shared_ptr<const TlsPem> TlsIdentity::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

std::vector<std::string> TlsIdentity::shown() const {
  const std::lock_guard lock(mutex_);
  return shown_;
}

void TlsIdentity::Replace(TlsPem pem) {
  auto next = std::make_shared<const TlsPem>(std::move(pem));
  const std::string sha256 = CertificateSha256(next->cert);
  const std::lock_guard lock(mutex_);
  current_ = std::move(next);
  if (sha256.empty()) return;  // a client that trusts an authority and shows nothing
  shown_.erase(std::remove(shown_.begin(), shown_.end(), sha256), shown_.end());
  shown_.insert(shown_.begin(), sha256);
  if (shown_.size() > kMaxServerCertificates) shown_.pop_back();
}

}  // namespace ddprun::auth
