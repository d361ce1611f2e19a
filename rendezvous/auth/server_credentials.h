// What a rendezvous needs to check its callers' credentials, loaded and ready for use.
#ifndef DDPRUN_RENDEZVOUS_AUTH_SERVER_CREDENTIALS_H_
#define DDPRUN_RENDEZVOUS_AUTH_SERVER_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/auth/authenticator.h"
#include "rendezvous/auth/credential_options.h"
#include "rendezvous/auth/tls/watch.h"

namespace ddprun::auth {

struct ServerCredentials {
  std::shared_ptr<grpc::ServerCredentials> transport;
  std::shared_ptr<Authenticator> authenticator;
  std::string description;          // "token and TLS", for the log; nothing secret
  std::string warning;              // something that the user has to do soon, or ""
  std::unique_ptr<TlsWatch> watch;  // follows the TLS files; null: none
  // Credentials for one channel to another rendezvous with the same options. If no authority is
  // configured, the peer may have any certificate. Any thread.
  std::function<std::shared_ptr<grpc::ChannelCredentials>()> to_peers;
  // A key derived from the tokens, so every rendezvous with the same tokens has the same key. Only
  // a process that knows all tokens can compute it. "": no tokens.
  std::string shared_key;
};

// InvalidArgument if TLS files are given without --tls-cert or --tls-key; the text names the
// missing options. Else OK, also if `options` ask for no credentials. Reads no file.
absl::Status CheckServerOptions(const CredentialOptions& options);

// Whether `options` ask every caller for credentials.
bool AsksWhoCalls(const CredentialOptions& options);

// Reads the files and loads libmunge. Blocks on the disk. With empty options, the server asks
// nobody for credentials. With `log`, TLS files are read again when they change, and `log` receives
// the result.
absl::StatusOr<std::shared_ptr<const ServerCredentials>> LoadServerCredentials(
    const CredentialOptions& options, TlsWatch::Log log = {});

// Credentials of a server that asks only for this token, without TLS.
std::shared_ptr<const ServerCredentials> ServerCredentialsOf(Token token);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_SERVER_CREDENTIALS_H_
