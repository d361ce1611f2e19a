// Turns the credentials of the command line into those of rendezvous/auth.
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

// `reachable`: other hosts can reach the rendezvous. With MUNGE and without --munge-socket, the
// socket is the one that slurm.conf names.
auth::CredentialOptions CredentialOptionsOf(const CredentialsConfig& config, bool reachable);

// True if other hosts can reach a rendezvous at this endpoint, "HOST:PORT" or "unix:/path". Only
// the text counts, because a name that resolves to loopback on this host may have another address
// elsewhere.
bool IsReachable(const std::string& endpoint);

// The flags that give the same credentials to another ddprun. They contain paths, and nothing
// secret.
std::vector<std::string> CredentialArguments(const CredentialsConfig& config);

// True if the daemon makes a token for an endpoint on `host` (state_home.h), and both sides use
// this token. This is so on loopback, if neither credentials nor --insecure (`insecure`) are given.
bool UsesOwnToken(const CredentialsConfig& config, const std::string& host, bool insecure);

// The credentials for the rendezvous at `endpoint`; "": the rendezvous of a job on one node. Reads
// the files. FailedPrecondition, for people: the files or the state home are not usable. With `log`
// (tls/watch.h), TLS files are read again when they change.
absl::StatusOr<std::shared_ptr<const auth::ClientCredentials>> LoadCredentials(
    const CredentialsConfig& config, const std::string& endpoint, bool insecure,
    std::function<void(bool ok, const std::string& text)> log = {});

// The same for the rendezvous at each of these endpoints, at least one, in their order. Endpoints
// with equal credentials share one object.
absl::StatusOr<std::vector<std::shared_ptr<const auth::ClientCredentials>>> LoadCredentialsOfAll(
    const CredentialsConfig& config, const std::vector<std::string>& endpoints, bool insecure,
    const std::function<void(bool ok, const std::string& text)>& log = {});

// Writes to ddprun's log; for the `log` above.
void LogTlsFiles(bool ok, const std::string& text);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_CREDENTIALS_H_
