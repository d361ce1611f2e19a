#include "rendezvous/auth/client_credentials.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/auth/crypto.h"
#include "rendezvous/auth/tls/peer_certificate.h"
#include "rendezvous/auth/tls/transport.h"
#include "rendezvous/auth/transcript.h"

namespace ddprun::auth {
namespace {

absl::Status CheckClientOptions(const CredentialOptions& options) {
  if (options.munge && !options.token_file.empty()) {
    return absl::InvalidArgumentError("--munge and --token-file: an agent shows one of them");
  }
  if (options.tls() && options.tls_ca.empty()) {
    return absl::InvalidArgumentError(
        "--tls-cert and --tls-key also need --tls-ca, the authority to trust");
  }
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key belong together");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ClientCredentials>> ClientCredentials::Load(
    const CredentialOptions& options, TlsWatch::Log log) {
  if (const absl::Status status = CheckClientOptions(options); !status.ok()) return status;
  std::shared_ptr<ClientCredentials> credentials(new ClientCredentials);
  if (!options.token_file.empty()) {
    auto tokens = LoadTokens(options.token_file);
    if (!tokens.ok()) return tokens.status();
    if (tokens->size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "token file ", options.token_file, ": has ", tokens->size(),
          " tokens, but an agent can show only one: give it a file with only its own line"));
    }
    credentials->token_ = std::move(tokens->front());
  }
  if (options.munge) {
    auto munge = Munge::Load(options.munge_socket);
    if (!munge.ok()) return munge.status();
    credentials->munge_ = *std::move(munge);
  }
  credentials->reachable_ = options.reachable;
  if (options.tls()) {
    auto identity = TlsIdentity::Load(options.tls_paths(), std::chrono::system_clock::now());
    if (!identity.ok()) return identity.status();
    credentials->identity_ = *std::move(identity);
    credentials->warning_ = credentials->identity_->current()->warning;
    if (log) {
      credentials->watch_ = std::make_unique<TlsWatch>(credentials->identity_, std::move(log));
    }
  }
  return credentials;
}

std::shared_ptr<const ClientCredentials> ClientCredentials::OfTokenFile(std::string path) {
  std::shared_ptr<ClientCredentials> credentials(new ClientCredentials);
  credentials->token_path_ = std::move(path);
  credentials->token_.emplace();
  return credentials;
}

// nullopt: the file is missing, or others than this user can read it.
std::optional<Token> ClientCredentials::TokenInFile() const {
  auto tokens = LoadTokens(token_path_);
  if (!tokens.ok()) return std::nullopt;
  return std::move(tokens->front());
}

bool ClientCredentials::Outdated() const {
  if (token_path_.empty()) return false;
  const auto now = TokenInFile();
  return now.has_value() && now->secret != token_->secret;
}

std::string ClientCredentials::WhyUnknown() const {
  if (token_path_.empty()) {
    const std::string name = token_->name == "token" ? "" : absl::StrCat(" named ", token_->name);
    return absl::StrCat("it does not know this token", name,
                        ": is the token file the same on both sides?");
  }
  if (found_) {
    return absl::StrCat("it does not know the token in ", token_path_,
                        ": it is not the rendezvous of this user that made it");
  }
  return absl::StrCat(
      "no rendezvous of this user listens there: there is no ", token_path_,
      ". For another user's, or one with credentials of its own, give --token-file, "
      "certificates or --munge; for one without any, --insecure");
}

absl::Status ClientCredentials::Check() const {
  if (munge_ == nullptr) return absl::OkStatus();
  const absl::Status reached = munge_->Reach();
  return reached.ok() ? munge_->Encode("", geteuid()).status() : reached;
}

ClientCredentials::Transport ClientCredentials::NewTransport() const {
  if (identity_ != nullptr) return {VerifiedTls(*identity_->current()), Transport::Tls::kVerified};
  if ((reachable_ && handshakes()) || heard_of_tls_) {
    return {UnverifiedTls(), Transport::Tls::kUnverified};
  }
  return {grpc::InsecureChannelCredentials(), Transport::Tls::kNone};
}

bool ClientCredentials::OnUnheard(Transport::Tls tls, bool closed) const {
  // If other hosts can reach the rendezvous, credentials never travel without TLS.
  if (identity_ != nullptr || (reachable_ && handshakes())) return false;
  if (tls == Transport::Tls::kNone ? !closed : closed) return false;
  heard_of_tls_ = tls == Transport::Tls::kNone;
  return true;
}

v1::HandshakeRequest ClientCredentials::NewHandshake() const {
  if (!token_path_.empty()) {
    token_ = TokenInFile();
    found_ = token_.has_value();
    if (!found_) token_.emplace().secret = RandomBytes(kNonceBytes);
  }
  v1::HandshakeRequest request;
  request.set_scheme(token_ ? v1::AUTH_SCHEME_TOKEN : v1::AUTH_SCHEME_MUNGE);
  request.set_name(token_ ? token_->name : absl::StrCat(geteuid()));
  request.set_client_nonce(RandomBytes(kNonceBytes));
  return request;
}

absl::StatusOr<std::optional<uid_t>> ClientCredentials::CheckServer(
    const v1::HandshakeReply& reply, const std::string& transcript) const {
  if (token_) {
    if (EqualInConstantTime(HmacSha256(token_->secret, transcript), reply.server_proof())) {
      return std::nullopt;
    }
    return absl::PermissionDeniedError(WhyUnknown());
  }
  const auto decoded = munge_->Decode(reply.server_proof());
  if (!decoded.ok()) {
    return absl::IsUnauthenticated(decoded.status())
               ? absl::PermissionDeniedError(decoded.status().message())
               : decoded.status();
  }
  if (!EqualInConstantTime(decoded->payload, Sha256(transcript))) {
    return absl::PermissionDeniedError("its MUNGE credential was made for something else");
  }
  if (decoded->uid != geteuid() && decoded->uid != 0) {
    return absl::PermissionDeniedError(absl::StrCat("it runs as user ", decoded->uid,
                                                    ", expected root or this user, ", geteuid()));
  }
  return decoded->uid;
}

absl::StatusOr<std::string> ClientCredentials::Prove(const v1::HandshakeRequest& request,
                                                     const v1::HandshakeReply& reply,
                                                     const std::string& method,
                                                     const std::string& certificate) const {
  const std::vector<std::string> shown(reply.server_certificates().begin(),
                                       reply.server_certificates().end());
  const bool understood =
      !reply.server_nonce().empty() && reply.server_nonce().size() <= kMaxServerNonceBytes &&
      shown.size() <= kMaxServerCertificates &&
      std::all_of(shown.begin(), shown.end(),
                  [](const std::string& sha256) { return sha256.size() == kSha256Bytes; });
  if (!understood) {
    return absl::PermissionDeniedError("it sent no challenge that this version understands");
  }
  const std::string certificates = absl::StrJoin(shown, "");
  Exchange exchange{request.scheme(), request.name(), request.client_nonce(), reply.server_nonce(),
                    certificates};
  const auto user = CheckServer(reply, Transcript(Side::kServer, exchange, "Handshake"));
  if (!user.ok()) return user.status();
  const bool saw_it = shown.empty()
                          ? certificate.empty()
                          : std::find(shown.begin(), shown.end(), certificate) != shown.end();
  if (!saw_it) {
    return absl::PermissionDeniedError(
        "the certificate of this connection is another server's: somebody in between relays the "
        "messages");
  }
  exchange.certificates = certificate;
  v1::AuthProof proof;
  proof.set_scheme(request.scheme());
  proof.set_name(request.name());
  proof.set_client_nonce(request.client_nonce());
  proof.set_server_nonce(reply.server_nonce());
  proof.set_server_certificate(certificate);
  const std::string transcript = Transcript(Side::kClient, exchange, method);
  if (token_) {
    proof.set_client_proof(HmacSha256(token_->secret, transcript));
  } else {
    auto credential = munge_->Encode(Sha256(transcript), **user);
    if (!credential.ok()) return credential.status();
    proof.set_client_proof(*std::move(credential));
  }
  return proof.SerializeAsString();
}

absl::Status ClientCredentials::Authorize(v1::Rendezvous::Stub& stub, const std::string& method,
                                          std::chrono::system_clock::time_point deadline,
                                          grpc::ClientContext* call,
                                          const std::stop_token& stop) const {
  if (!handshakes()) return absl::OkStatus();
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(deadline);
  const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
  const v1::HandshakeRequest request = NewHandshake();
  v1::HandshakeReply reply;
  const grpc::Status status = stub.Handshake(&context, request, &reply);
  if (!status.ok()) {
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }
  auto proof = Prove(request, reply, method, ServerCertificateOf(context));
  if (!proof.ok()) return proof.status();
  call->AddMetadata(kProofMetadata, *proof);
  return absl::OkStatus();
}

}  // namespace ddprun::auth
