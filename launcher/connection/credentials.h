// Credentials as the command line has them, for rendezvous/auth.
#ifndef DDPRUN_LAUNCHER_CONNECTION_CREDENTIALS_H_
#define DDPRUN_LAUNCHER_CONNECTION_CREDENTIALS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/config/job_config.h"
#include "rendezvous/auth/credential_options.h"

namespace ddprun {
namespace auth {
class ClientCredentials;
}

auth::CredentialOptions CredentialOptionsOf(const CredentialsConfig& config);

// The flags by which another ddprun gets the same. Paths, nothing secret.
std::vector<std::string> CredentialArguments(const CredentialsConfig& config);

// Reads the files. FailedPrecondition, for people, when they are no good.
absl::StatusOr<std::shared_ptr<const auth::ClientCredentials>> LoadCredentials(
    const CredentialsConfig& config);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_CREDENTIALS_H_
