// Files with credentials. Any thread; may block on the disk. Errors name the path and what to do,
// never what is in the file.
#ifndef DDPRUN_RENDEZVOUS_AUTH_SECRET_FILE_H_
#define DDPRUN_RENDEZVOUS_AUTH_SECRET_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace ddprun::auth {

enum class Readers {
  // A secret: refused when its group or others can read or write it, or a stranger owns it. Its
  // group may read it where systemd has put it, in $CREDENTIALS_DIRECTORY (LoadCredential=), and
  // where kubelet has, in a pod's volume of secrets.
  kOwner,
  kAnybody,
};

// `what`, such as "token file", begins the error. InvalidArgument for a file that is not regular,
// is open to others, or is larger than 1 MiB; NotFound and others as the kernel says.
absl::StatusOr<std::string> ReadCredentialFile(const std::string& what, const std::string& path,
                                               Readers readers);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_SECRET_FILE_H_
