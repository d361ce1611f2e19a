// MUNGE: its daemon munged can tell which user made a credential on another host. libmunge is
// loaded at run time (Load), so hosts without MUNGE do not need it.
//
// Thread-safe. Encode and Decode ask munged. They block for about a millisecond, and for some
// seconds if munged does not answer.
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
    uid_t uid = 0;  // the user who made the credential
  };

  // `socket`: munged's; empty: libmunge's default. Error: FailedPrecondition without libmunge.so.2.
  static absl::StatusOr<std::shared_ptr<const Munge>> Load(const std::string& socket);
  ~Munge();
  Munge(const Munge&) = delete;
  Munge& operator=(const Munge&) = delete;

  // Whether a process listens on munged's socket. Does not block. Error: FailedPrecondition.
  absl::Status Reach() const;

  // A credential that only the user `reader` can decode. Errors name this host. FailedPrecondition:
  // no process listens on munged's socket, or this process is not allowed to use it; a retry does
  // not help. Unavailable: any other failure, with munge's reason.
  absl::StatusOr<std::string> Encode(const std::string& payload, uid_t reader) const;
  // Errors: Unauthenticated if the credential is forged, is for another user, has expired or was
  // decoded before; FailedPrecondition and Unavailable as for Encode.
  absl::StatusOr<Decoded> Decode(const std::string& credential) const;

 private:
  struct Library;
  // An error if munged was away at the last call and still is. Without this check libmunge would
  // retry for a second.
  absl::Status StillAway() const { return away_ ? Reach() : absl::OkStatus(); }
  // The error for a call that munged did not answer: `why`, or that munged cannot be reached.
  absl::Status Unanswered(const std::string& why) const;
  std::string SocketPath() const;
  Munge(std::unique_ptr<const Library> library, std::string socket);

  const std::unique_ptr<const Library> library_;
  const std::string socket_;
  mutable std::atomic<bool> away_{false};
};

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_MUNGE_H_
