#include "rendezvous/auth/server_credentials.h"

#include <unistd.h>

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/auth/tls_files.h"

namespace ddprun::auth {

absl::Status CheckServerOptions(const CredentialOptions& options) {
  if (options.tls() && (options.tls_cert.empty() || options.tls_key.empty())) {
    return absl::InvalidArgumentError(
        "TLS of a rendezvous needs --tls-cert and --tls-key; with --tls-ca as well it asks every "
        "agent for a certificate");
  }
  return absl::OkStatus();
}

bool AsksWhoCalls(const CredentialOptions& options) {
  return options.munge || !options.token_file.empty() || !options.tls_ca.empty();
}

absl::StatusOr<std::shared_ptr<const ServerCredentials>> LoadServerCredentials(
    const CredentialOptions& options) {
  if (const absl::Status status = CheckServerOptions(options); !status.ok()) return status;
  auto credentials = std::make_shared<ServerCredentials>();
  std::vector<std::string> parts;
  Authenticator::Options who;
  if (!options.token_file.empty()) {
    auto tokens = LoadTokens(options.token_file);
    if (!tokens.ok()) return tokens.status();
    who.tokens = *std::move(tokens);
    parts.push_back(who.tokens.size() == 1 ? "a token"
                                           : absl::StrCat(who.tokens.size(), " tokens"));
  }
  if (options.munge) {
    auto munge = Munge::Load(options.munge_socket);
    if (!munge.ok()) return munge.status();
    who.munge = *std::move(munge);
    who.own_uid = geteuid();
    parts.emplace_back("MUNGE");
  }
  credentials->transport = grpc::InsecureServerCredentials();
  if (options.tls()) {
    auto pem = LoadTlsFiles(options.tls_ca, options.tls_cert, options.tls_key,
                            std::chrono::system_clock::now());
    if (!pem.ok()) return pem.status();
    who.certificates = !pem->ca.empty();
    grpc::SslServerCredentialsOptions ssl(
        who.certificates ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                         : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
    ssl.pem_root_certs = std::move(pem->ca);
    ssl.pem_key_cert_pairs.push_back({std::move(pem->key), std::move(pem->cert)});
    credentials->transport = grpc::SslServerCredentials(ssl);
    credentials->warning = std::move(pem->warning);
    parts.emplace_back(who.certificates ? "certificates of both sides" : "TLS");
  }
  credentials->description = parts.empty() ? "no credentials" : absl::StrJoin(parts, ", ");
  credentials->authenticator = std::make_shared<Authenticator>(std::move(who));
  return credentials;
}

std::shared_ptr<const ServerCredentials> ServerCredentialsOf(Token token) {
  Authenticator::Options who;
  who.tokens = {std::move(token)};
  auto credentials = std::make_shared<ServerCredentials>();
  credentials->transport = grpc::InsecureServerCredentials();
  credentials->authenticator = std::make_shared<Authenticator>(std::move(who));
  credentials->description = "a token";
  return credentials;
}

}  // namespace ddprun::auth
