// TlsIdentity: the certificate and key of this process for TLS, and the authority that it trusts.
// If they come from files, Refresh reads changed files again.
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

  // Blocks on the disk. Errors: those of LoadTlsFiles.
  static absl::StatusOr<std::shared_ptr<TlsIdentity>> Load(const TlsPaths& paths, WallTime now);

  // Reads the files of Load again if one of them was replaced or changed. True: the new content is
  // in use. False: no file changed. Error: the new files are invalid, and the old content stays in
  // use. Blocks on the disk.
  absl::StatusOr<bool> Refresh(WallTime now);

  // The content for the next connection.
  std::shared_ptr<const TlsPem> current() const;

  // SHA-256 of the current certificate and of earlier ones, newest first: open connections still
  // use earlier ones. At most kMaxServerCertificates (transcript.h).
  std::vector<std::string> shown() const;

  void Replace(TlsPem pem);

 private:
  // Shows whether a file has changed: every change of the content also changes one of these values.
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

  std::mutex refresh_mutex_;  // held while files are read; guards paths_ and stamps_
  TlsPaths paths_;
  Stamps stamps_{};

  mutable std::mutex mutex_;
  std::shared_ptr<const TlsPem> current_;  // guarded by mutex_
  std::vector<std::string> shown_;
};

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_TLS_IDENTITY_H_
