// MUNGE: credentials by which munged of one host tells that of another who made them. libmunge is
// loaded by Load, so that a host that does not use it needs none.
//
// Thread-safe. Encode and Decode talk to munged: they block for about a millisecond, and for some
// seconds when it hangs.
#ifndef DDPRUN_RENDEZVOUS_AUTH_MUNGE_H_
#define DDPRUN_RENDEZVOUS_AUTH_MUNGE_H_

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ddprun::auth {

class Munge {
 public:
  struct Decoded {
    std::string payload;
    uid_t uid = 0;  // who made it
  };

  // `socket`: of munged; empty: libmunge's own choice. FailedPrecondition without libmunge.so.2.
  static absl::StatusOr<std::shared_ptr<const Munge>> Load(const std::string& socket);
  ~Munge();
  Munge(const Munge&) = delete;
  Munge& operator=(const Munge&) = delete;

  // Whether somebody listens on munged's socket. Does not wait. Error: FailedPrecondition.
  absl::Status Reach() const;

  // A credential that nobody but the user `reader` can decode. Errors name this host:
  // FailedPrecondition when nobody listens on munged's socket, or we may not use it, which waiting
  // does not change; else Unavailable, with munge's reason.
  absl::StatusOr<std::string> Encode(const std::string& payload, uid_t reader) const;
  // Unauthenticated for a credential that is not genuine, is for another user, has expired or was
  // decoded before; FailedPrecondition and Unavailable as of Encode.
  absl::StatusOr<Decoded> Decode(const std::string& credential) const;

 private:
  struct Library;
  // Where munged was away the last time: whether it still is. libmunge would try for a second.
  absl::Status StillAway() const { return away_ ? Reach() : absl::OkStatus(); }
  // Why munged has not answered: `why`, unless it cannot be reached at all.
  absl::Status Unanswered(const std::string& why) const;
  std::string SocketPath() const;
  Munge(std::unique_ptr<const Library> library, std::string socket);

  const std::unique_ptr<const Library> library_;
  const std::string socket_;
  mutable std::atomic<bool> away_{false};
};

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_MUNGE_H_
