// TlsIdentity: the certificate and key with which this process speaks TLS, and the authority that
// it trusts. It may come from files, which are read again when they have changed.
//
// Thread-safe.
#ifndef DDPRUN_RENDEZVOUS_AUTH_TLS_IDENTITY_H_
#define DDPRUN_RENDEZVOUS_AUTH_TLS_IDENTITY_H_

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rendezvous/auth/tls_files.h"

namespace ddprun::auth {

class TlsIdentity {
 public:
  using WallTime = std::chrono::system_clock::time_point;

  explicit TlsIdentity(TlsPem pem);

  // Blocks on the disk. Errors as of LoadTlsFiles.
  static absl::StatusOr<std::shared_ptr<TlsIdentity>> Load(const TlsPaths& paths, WallTime now);

  // Takes up the files of Load where one of them is another one now, or has other content. True: it
  // has; false: they are as they were. Error: they are no good, and what was there goes on. Blocks
  // on the disk.
  absl::StatusOr<bool> Refresh(WallTime now);

  // What the next connection is made with.
  std::shared_ptr<const TlsPem> current() const;

  // SHA-256 of its certificate, and of those before it, the newest first: older connections live on
  // with what they were made with. At most kMaxServerCertificates (transcript.h).
  std::vector<std::string> shown() const;

  void Replace(TlsPem pem);

 private:
  // By which a file is known to be the same: no content changes without one of them.
  struct Stamp {
    dev_t device = 0;
    ino_t inode = 0;
    off_t size = 0;
    std::int64_t modified_ns = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const Stamp&) const = default;
  };
  using Stamps = std::array<Stamp, 3>;
  static Stamps StampsOf(const TlsPaths& paths);

  std::mutex refresh_mutex_;  // held while files are read; guards these two
  TlsPaths paths_;
  Stamps stamps_{};

  mutable std::mutex mutex_;
  std::shared_ptr<const TlsPem> current_;  // guarded by mutex_, and so is what follows
  std::vector<std::string> shown_;
};

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_TLS_IDENTITY_H_
