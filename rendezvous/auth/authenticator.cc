#include "rendezvous/auth/authenticator.h"

#include <grpcpp/server_context.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/auth/crypto.h"
#include "rendezvous/auth/refusal_counters.h"

namespace ddprun::auth {
namespace {

constexpr char kCommonNameProperty[] = "x509_common_name";  // gRPC's name for it

Exchange ExchangeOf(const v1::AuthProof& proof) {
  return {proof.scheme(), proof.name(), proof.client_nonce(), proof.server_nonce(),
          proof.server_certificate()};
}

// The values that must be the same in the handshake and in the call.
std::string Binding(Exchange exchange, std::string_view peer) {
  exchange.server_nonce = {};
  exchange.certificates = {};
  return Transcript(Side::kServer, exchange, peer);
}

}  // namespace

Authenticator::Authenticator(Options options)
    : options_(std::move(options)), nobodys_secret_(RandomBytes(32)) {}

std::string Authenticator::Wanted() const {
  std::vector<std::string> ways;
  if (!options_.tokens.empty()) ways.emplace_back("a token (--token-file)");
  if (options_.munge != nullptr) ways.emplace_back("MUNGE (--munge)");
  if (ways.empty() && options_.certificates) ways.emplace_back("a certificate (--tls-cert) alone");
  return absl::StrCat("this rendezvous ",
                      ways.empty() ? "runs without credentials (--insecure)"
                                   : absl::StrCat("asks for ", absl::StrJoin(ways, " or ")));
}

const Token* Authenticator::Find(std::string_view name) const {
  for (const Token& token : options_.tokens) {
    if (token.name == name) return &token;
  }
  return nullptr;
}

absl::Status Authenticator::CheckHost() const {
  return options_.munge == nullptr ? absl::OkStatus() : options_.munge->Reach();
}

absl::StatusOr<v1::HandshakeReply> Authenticator::Answer(const v1::HandshakeRequest& request,
                                                         std::string_view peer) const {
  const bool token = request.scheme() == v1::AUTH_SCHEME_TOKEN && !options_.tokens.empty();
  const bool munge = request.scheme() == v1::AUTH_SCHEME_MUNGE && options_.munge != nullptr;
  if (!token && !munge) return absl::UnauthenticatedError(Wanted());
  if (request.client_nonce().size() != kNonceBytes) {
    return absl::InvalidArgumentError(absl::StrCat("HandshakeRequest.client_nonce has ",
                                                   request.client_nonce().size(),
                                                   " bytes, expected ", kNonceBytes));
  }
  if (request.name().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("HandshakeRequest.name has ",
                                                   request.name().size(),
                                                   " bytes, expected at most ", kMaxNameBytes));
  }
  const std::vector<std::string> shown = Shown();
  const std::string certificates = absl::StrJoin(shown, "");
  Exchange exchange{request.scheme(), request.name(), request.client_nonce(), {}, certificates};
  v1::HandshakeReply reply;
  for (const std::string& certificate : shown) reply.add_server_certificates(certificate);
  reply.set_server_nonce(challenges_.Issue(Binding(exchange, peer), options_.clock()));
  exchange.server_nonce = reply.server_nonce();
  auto proof = ProofOf(request, Transcript(Side::kServer, exchange, "Handshake"));
  if (!proof.ok()) return proof.status();
  reply.set_server_proof(*std::move(proof));
  return reply;
}

absl::StatusOr<std::string> Authenticator::ProofOf(const v1::HandshakeRequest& request,
                                                   const std::string& transcript) const {
  if (request.scheme() == v1::AUTH_SCHEME_MUNGE) {
    std::uint32_t caller = 0;
    if (!absl::SimpleAtoi(request.name(), &caller)) {
      return absl::InvalidArgumentError(
          "HandshakeRequest.name: with MUNGE, expected the caller's user id");
    }
    return options_.munge->Encode(Sha256(transcript), caller);
  }
  // An unknown name looks like a wrong token, so that callers cannot find out which names exist.
  const Token* const known = Find(request.name());
  return HmacSha256(known == nullptr ? nobodys_secret_ : known->secret, transcript);
}

std::vector<std::string> Authenticator::Shown() const {
  return options_.identity == nullptr ? std::vector<std::string>() : options_.identity->shown();
}

bool Authenticator::IsOurs(const std::string& certificate) const {
  const std::vector<std::string> shown = Shown();
  return shown.empty() ? certificate.empty()
                       : std::find(shown.begin(), shown.end(), certificate) != shown.end();
}

Authenticator::Refusal Authenticator::Check(const Call& call, Principal* principal) {
  if (!handshakes()) {
    if (!options_.certificates) {
      principal->clear();
      return {};
    }
    // gRPC has verified the certificate. The common name says to whom jobs belong.
    if (call.common_name.empty()) {
      return {refusal::kNoProof,
              absl::UnauthenticatedError("the certificate has no common name (CN)")};
    }
    *principal = absl::StrCat("cert:", std::string(call.common_name));
    return {};
  }
  if (!call.proof) return {refusal::kNoProof, absl::UnauthenticatedError(Wanted())};
  v1::AuthProof proof;
  if (call.proof->size() > kMaxProofBytes ||
      !proof.ParseFromArray(call.proof->data(), static_cast<int>(call.proof->size()))) {
    return {refusal::kMalformed,
            absl::UnauthenticatedError(absl::StrCat("the metadata ", kProofMetadata,
                                                    " is not an AuthProof of at most ",
                                                    kMaxProofBytes, " bytes"))};
  }
  return CheckProof(proof, call, principal);
}

Authenticator::Refusal Authenticator::Check(const grpc::ServerContextBase& context,
                                            std::string_view method, Principal* principal) {
  const std::string peer = context.peer();
  std::string common_name;
  if (options_.certificates) {
    for (const grpc::string_ref& name :
         context.auth_context()->FindPropertyValues(kCommonNameProperty)) {
      common_name.assign(name.data(), name.size());
    }
  }
  Call call{method, peer, std::nullopt, common_name};
  const auto proof = context.client_metadata().find(kProofMetadata);
  if (proof != context.client_metadata().end()) {
    call.proof = std::string_view(proof->second.data(), proof->second.size());
  }
  return Check(call, principal);
}

Authenticator::Refusal Authenticator::CheckProof(const v1::AuthProof& proof, const Call& call,
                                                 Principal* principal) {
  const Exchange exchange = ExchangeOf(proof);
  const auto now = options_.clock();
  const auto stale = [](absl::Status status) {
    return Refusal{refusal::kStaleProof, std::move(status)};
  };
  if (absl::Status status =
          challenges_.Check(proof.server_nonce(), Binding(exchange, call.peer), now);
      !status.ok()) {
    return stale(std::move(status));
  }
  const std::string transcript = Transcript(Side::kClient, exchange, call.method);
  Principal proven;
  if (proof.scheme() == v1::AUTH_SCHEME_MUNGE && options_.munge != nullptr) {
    if (Refusal refusal = CheckMunge(proof, transcript, &proven); refusal.counter != nullptr) {
      return refusal;
    }
  } else {
    const Token* const token = Find(proof.name());
    const std::string expected =
        HmacSha256(token == nullptr ? nobodys_secret_ : token->secret, transcript);
    if (!EqualInConstantTime(expected, proof.client_proof()) || token == nullptr ||
        proof.scheme() != v1::AUTH_SCHEME_TOKEN) {
      return {refusal::kWrongProof,
              absl::UnauthenticatedError("the token is not the one that this rendezvous knows")};
    }
    proven = absl::StrCat("token:", token->name);
  }
  if (!IsOurs(proof.server_certificate())) {
    return {refusal::kRelayed,
            absl::UnauthenticatedError(
                "the proof was made for another server's certificate: somebody in between relays "
                "the messages")};
  }
  // Last, so that only callers who know the secret use memory of this server.
  if (absl::Status status = challenges_.Use(proof.server_nonce(), now); !status.ok()) {
    return stale(std::move(status));
  }
  *principal = std::move(proven);
  return {};
}

Authenticator::Refusal Authenticator::CheckMunge(const v1::AuthProof& proof,
                                                 const std::string& transcript,
                                                 Principal* principal) const {
  const auto decoded = options_.munge->Decode(proof.client_proof());
  if (!decoded.ok()) return {refusal::kWrongProof, decoded.status()};
  if (!EqualInConstantTime(decoded->payload, Sha256(transcript))) {
    return {refusal::kWrongProof,
            absl::UnauthenticatedError("the MUNGE credential was made for something else")};
  }
  if (options_.own_uid != 0 && decoded->uid != options_.own_uid && decoded->uid != 0) {
    return {refusal::kWrongProof, absl::PermissionDeniedError(
                                      absl::StrCat("this rendezvous serves user ", options_.own_uid,
                                                   ", you are user ", decoded->uid))};
  }
  *principal = absl::StrCat("uid:", decoded->uid);
  return {};
}

}  // namespace ddprun::auth
