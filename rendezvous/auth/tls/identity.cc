#include "rendezvous/auth/tls/identity.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "rendezvous/auth/tls/peer_certificate.h"
#include "rendezvous/auth/transcript.h"

namespace ddprun::auth {
namespace {

std::int64_t NanosecondsOf(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

TlsIdentity::TlsIdentity(TlsPem pem) { Replace(std::move(pem)); }

TlsIdentity::Stamps TlsIdentity::StampsOf(const TlsPaths& paths) {
  Stamps stamps;
  std::size_t next = 0;
  for (const std::string* const path : {&paths.ca, &paths.cert, &paths.key}) {
    Stamp& stamp = stamps[next++];
    struct stat info {};
    if (path->empty() || stat(path->c_str(), &info) != 0) continue;
    stamp = {info.st_dev, info.st_ino, info.st_size, NanosecondsOf(info.st_mtim),
             NanosecondsOf(info.st_ctim)};
  }
  return stamps;
}

absl::StatusOr<std::shared_ptr<TlsIdentity>> TlsIdentity::Load(const TlsPaths& paths,
                                                               WallTime now) {
  // Taken before the files are read: the next Refresh sees a later change.
  const Stamps stamps = StampsOf(paths);
  auto pem = LoadTlsFiles(paths, now);
  if (!pem.ok()) return pem.status();
  auto identity = std::make_shared<TlsIdentity>(*std::move(pem));
  identity->paths_ = paths;
  identity->stamps_ = stamps;
  return identity;
}

absl::StatusOr<bool> TlsIdentity::Refresh(WallTime now) {
  const std::lock_guard lock(refresh_mutex_);
  const Stamps stamps = StampsOf(paths_);
  if (stamps == stamps_) return false;
  auto pem = LoadTlsFiles(paths_, now);
  // The stamps stay old, so the next call tries again: the matching file may follow.
  if (!pem.ok()) return pem.status();
  Replace(*std::move(pem));
  stamps_ = stamps;
  return true;
}

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
  if (sha256.empty()) return;  // a client without a certificate of its own
  shown_.erase(std::remove(shown_.begin(), shown_.end(), sha256), shown_.end());
  shown_.insert(shown_.begin(), sha256);
  if (shown_.size() > kMaxServerCertificates) shown_.pop_back();
}

}  // namespace ddprun::auth
