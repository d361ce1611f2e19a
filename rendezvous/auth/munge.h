// MUNGE: credentials by which munged of one host tells that of another who made them. libmunge is
// loaded by Load, so that a host that does not use it needs none.
//
// Thread-safe. Encode and Decode talk to munged: they block for about a millisecond, and for some
// seconds when it hangs.
#ifndef DDPRUN_RENDEZVOUS_AUTH_MUNGE_H_
#define DDPRUN_RENDEZVOUS_AUTH_MUNGE_H_

#include <sys/types.h>

#include <memory>
#include <string>

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

  // A credential that nobody but the user `reader` can decode. Unavailable, with munge's reason.
  absl::StatusOr<std::string> Encode(const std::string& payload, uid_t reader) const;
  // Unauthenticated for a credential that is not genuine, is for another user, has expired or was
  // decoded before;
  // Unavailable when munged cannot say.
  absl::StatusOr<Decoded> Decode(const std::string& credential) const;

 private:
  struct Library;
  Munge(std::unique_ptr<const Library> library, std::string socket);

  const std::unique_ptr<const Library> library_;
  const std::string socket_;
};

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_MUNGE_H_
