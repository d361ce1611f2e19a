// The server's side of authentication: answers Handshake, and identifies the caller of every other
// call except Follow.
//
// Thread-safe. With MUNGE, Answer and Check ask munged (MUNGE's daemon), and block as in munge.h.
#ifndef DDPRUN_RENDEZVOUS_AUTH_AUTHENTICATOR_H_
#define DDPRUN_RENDEZVOUS_AUTH_AUTHENTICATOR_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ddprun/v1/rendezvous.pb.h"
#include "rendezvous/auth/challenges.h"
#include "rendezvous/auth/munge.h"
#include "rendezvous/auth/principal.h"
#include "rendezvous/auth/tls/identity.h"
#include "rendezvous/auth/tokens.h"
#include "rendezvous/auth/transcript.h"

namespace grpc {
class ServerContextBase;
}

namespace ddprun::auth {

class Authenticator {
 public:
  struct Options {
    std::vector<Token> tokens;
    std::shared_ptr<const Munge> munge;  // null: MUNGE is not accepted
    // Every connection has a verified client certificate. Without tokens and MUNGE, its common name
    // identifies the caller.
    bool certificates = false;
    // The certificates of this server; null: it does not use TLS.
    std::shared_ptr<const TlsIdentity> identity{};
    uid_t own_uid = 0;  // with MUNGE: only this user and root may call; 0: every user may
    std::function<Challenges::TimePoint()> clock = &std::chrono::steady_clock::now;
  };

  struct Call {
    std::string_view method;                // "Session"
    std::string_view peer;                  // "ipv4:10.0.0.7:41822"
    std::optional<std::string_view> proof;  // the call's metadata kProofMetadata
    std::string_view common_name;           // of the verified client certificate; or empty
  };
  // Why a call is refused, and the counter of this reason (refusal_counters.h).
  struct Refusal {
    const char* counter = nullptr;  // nullptr: not refused
    absl::Status status;            // Unauthenticated, PermissionDenied, Unavailable, ...
  };

  explicit Authenticator(Options options);

  // True: Answer and Check may block, because they ask munged.
  bool may_wait() const { return options_.munge != nullptr; }

  // With MUNGE: whether munged can be reached. Does not block.
  absl::Status CheckHost() const;

  // Answers a Handshake. Errors as in proto/ddprun/v1/rendezvous.proto.
  absl::StatusOr<v1::HandshakeReply> Answer(const v1::HandshakeRequest& request,
                                            std::string_view peer) const;

  // Sets `principal` to the caller, unless the call is refused. Each proof is accepted once.
  Refusal Check(const Call& call, Principal* principal);
  // The same, for the call of this gRPC context.
  Refusal Check(const grpc::ServerContextBase& context, std::string_view method,
                Principal* principal);

 private:
  bool handshakes() const { return !options_.tokens.empty() || options_.munge != nullptr; }
  std::string Wanted() const;
  const Token* Find(std::string_view name) const;
  std::vector<std::string> Shown() const;
  absl::StatusOr<std::string> ProofOf(const v1::HandshakeRequest& request,
                                      const std::string& transcript) const;
  bool IsOurs(const std::string& certificate) const;
  Refusal CheckProof(const v1::AuthProof& proof, const Call& call, Principal* principal);
  Refusal CheckMunge(const v1::AuthProof& proof, const std::string& transcript,
                     Principal* principal) const;

  const Options options_;
  const std::string nobodys_secret_;  // used in place of an unknown token
  Challenges challenges_;
};

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_AUTHENTICATOR_H_
