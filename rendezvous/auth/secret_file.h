// Reads files with credentials. Any thread; may block on the disk. Errors name the path and the
// remedy, never the content.
#ifndef DDPRUN_RENDEZVOUS_AUTH_SECRET_FILE_H_
#define DDPRUN_RENDEZVOUS_AUTH_SECRET_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace ddprun::auth {

enum class Readers {
  // A secret. Refused if the group or others have any access to the file, or if neither this user
  // nor root owns it. Two exceptions, where the group is allowed to read: systemd's
  // $CREDENTIALS_DIRECTORY (LoadCredential=), and a pod's volume of secrets that kubelet made.
  kOwner,
  kAnybody,
};

// `what`, such as "token file", begins the error text. Errors: InvalidArgument for a file that is
// not regular, is open to others, or is larger than 1 MiB; NotFound and others from the kernel.
absl::StatusOr<std::string> ReadCredentialFile(const std::string& what, const std::string& path,
                                               Readers readers);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_SECRET_FILE_H_
