// Credentials as the command line has them, for rendezvous/auth.
#ifndef DDPRUN_LAUNCHER_CONNECTION_CREDENTIALS_H_
#define DDPRUN_LAUNCHER_CONNECTION_CREDENTIALS_H_

#include <functional>
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

// `reachable`: other hosts can reach the rendezvous. With MUNGE, where no socket is given, the one
// that slurm.conf names.
auth::CredentialOptions CredentialOptionsOf(const CredentialsConfig& config, bool reachable);

// Whether they can reach the one at this endpoint, "HOST:PORT" or "unix:/path", as it says itself:
// a name that merely resolves to loopback here is another address for the others.
bool IsReachable(const std::string& endpoint);

// The flags by which another ddprun gets the same. Paths, nothing secret.
std::vector<std::string> CredentialArguments(const CredentialsConfig& config);

// Whether the two sides of an endpoint on `host` know each other by the token that the daemon makes
// there (state_home.h): on loopback, where no credentials are given. `insecure`: --insecure is.
bool UsesOwnToken(const CredentialsConfig& config, const std::string& host, bool insecure);

// For a rendezvous at `endpoint`; "": of a job on one node. Reads the files. FailedPrecondition,
// for people, when they are no good, or the state home is not. With `log` (tls/watch.h), files of
// TLS are read again when they have changed.
absl::StatusOr<std::shared_ptr<const auth::ClientCredentials>> LoadCredentials(
    const CredentialsConfig& config, const std::string& endpoint, bool insecure,
    std::function<void(bool ok, const std::string& text)> log = {});

// The same for the rendezvous at each of these endpoints, one at least, in their order. Those that
// take the same share one.
absl::StatusOr<std::vector<std::shared_ptr<const auth::ClientCredentials>>> LoadCredentialsOfAll(
    const CredentialsConfig& config, const std::vector<std::string>& endpoints, bool insecure,
    const std::function<void(bool ok, const std::string& text)>& log = {});

// Such a log, in ours.
void LogTlsFiles(bool ok, const std::string& text);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_CREDENTIALS_H_
