// What a rendezvous asks of those who connect, ready to be used.
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
  std::string warning;              // what will have to be done soon, or ""
  std::unique_ptr<TlsWatch> watch;  // of its files of TLS; null: none
  // For one channel to another rendezvous with the same options. Where no authority is configured,
  // its certificate may be any. Any thread.
  std::function<std::shared_ptr<grpc::ChannelCredentials>()> to_peers;
  // The same for every rendezvous with these tokens, and known to who knows all of them; "": there
  // are none.
  std::string shared_key;
};

// OK when nobody could join or end a job without showing who it is; else what is missing:
// InvalidArgument, for people. Looks at no file.
absl::Status CheckServerOptions(const CredentialOptions& options);

// Whether `options` ask every caller who it is.
bool AsksWhoCalls(const CredentialOptions& options);

// Reads the files and loads libmunge. Options of all empty give a server that asks nobody. Blocks
// on the disk. With `log`, which hears of it, files of TLS are read again when they have changed.
absl::StatusOr<std::shared_ptr<const ServerCredentials>> LoadServerCredentials(
    const CredentialOptions& options, TlsWatch::Log log = {});

// Those of a server that asks for this token alone, without TLS.
std::shared_ptr<const ServerCredentials> ServerCredentialsOf(Token token);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_SERVER_CREDENTIALS_H_
