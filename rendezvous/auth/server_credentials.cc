#include "rendezvous/auth/server_credentials.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/auth/certificates.h"
#include "rendezvous/auth/crypto.h"
#include "rendezvous/auth/tls/identity.h"
#include "rendezvous/auth/tls/transport.h"

namespace ddprun::auth {
namespace {

// Independent of the order of the tokens in their file.
std::string SharedKeyOf(const std::vector<Token>& tokens) {
  if (tokens.empty()) return "";
  std::vector<std::string> secrets;
  for (const Token& token : tokens) secrets.push_back(Sha256(token.secret));
  std::sort(secrets.begin(), secrets.end());
  return HmacSha256(absl::StrJoin(secrets, ""), "ddprun: the secrets of generations");
}

std::function<std::shared_ptr<grpc::ChannelCredentials>()> ToPeers(
    std::shared_ptr<const TlsIdentity> identity) {
  return [identity = std::move(identity)]() -> std::shared_ptr<grpc::ChannelCredentials> {
    if (identity == nullptr) return grpc::InsecureChannelCredentials();
    const auto pem = identity->current();
    return pem->ca.empty() ? UnverifiedTls() : VerifiedTls(*pem);
  };
}

}  // namespace

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
    const CredentialOptions& options, TlsWatch::Log log) {
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
  if (options.tls()) {
    auto identity = TlsIdentity::Load(options.tls_paths(), std::chrono::system_clock::now());
    if (!identity.ok()) return identity.status();
    const auto pem = (*identity)->current();
    who.certificates = !pem->ca.empty();
    credentials->warning = pem->warning;
    if (log) credentials->watch = std::make_unique<TlsWatch>(*identity, std::move(log));
    who.identity = *std::move(identity);
    parts.emplace_back(who.certificates ? "certificates of both sides" : "TLS");
  } else if (options.reachable && options.handshakes()) {
    who.identity = std::make_shared<TlsIdentity>(MakeSelfSigned("ddprun rendezvous"));
    parts.emplace_back("TLS with a certificate of its own making");
  }
  credentials->transport =
      who.identity == nullptr ? grpc::InsecureServerCredentials() : TlsServer(who.identity);
  credentials->to_peers = ToPeers(who.identity);
  credentials->shared_key = SharedKeyOf(who.tokens);
  credentials->description = parts.empty() ? "no credentials" : absl::StrJoin(parts, ", ");
  credentials->authenticator = std::make_shared<Authenticator>(std::move(who));
  return credentials;
}

std::shared_ptr<const ServerCredentials> ServerCredentialsOf(Token token) {
  Authenticator::Options who;
  who.tokens = {std::move(token)};
  auto credentials = std::make_shared<ServerCredentials>();
  credentials->to_peers = ToPeers(nullptr);
  credentials->shared_key = SharedKeyOf(who.tokens);
  credentials->transport = grpc::InsecureServerCredentials();
  credentials->authenticator = std::make_shared<Authenticator>(std::move(who));
  credentials->description = "a token";
  return credentials;
}

}  // namespace ddprun::auth
