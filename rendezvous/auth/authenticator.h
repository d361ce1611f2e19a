// The server's side of Handshake and of every call: who is it?
//
// Thread-safe. With MUNGE, Answer and Check ask munged, which takes about a millisecond.
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
    std::shared_ptr<const Munge> munge;  // null: not taken
    // Every connection has shown a certificate: with neither tokens nor MUNGE it says who calls.
    bool certificates = false;
    // With which certificates this server speaks TLS; null: it does not.
    std::shared_ptr<const TlsIdentity> identity{};
    uid_t own_uid = 0;  // with MUNGE: who may call besides root; 0: everybody
    std::function<Challenges::TimePoint()> clock = &std::chrono::steady_clock::now;
  };

  // What a call brings along.
  struct Call {
    std::string_view method;                // "Session"
    std::string_view peer;                  // "ipv4:10.0.0.7:41822"
    std::optional<std::string_view> proof;  // its metadata kProofMetadata
    std::string_view common_name;           // of its certificate, which was verified; or empty
  };
  // Why it is refused, with the name under which that is counted (refusal_counters.h).
  struct Refusal {
    const char* counter = nullptr;  // nullptr: not refused
    absl::Status status;            // Unauthenticated, PermissionDenied, Unavailable, ...
  };

  explicit Authenticator(Options options);

  // Whether Answer and Check may have to wait for somebody: munged.
  bool may_wait() const { return options_.munge != nullptr; }

  // Whether what it needs besides files is there: with MUNGE, munged. Does not wait.
  absl::Status CheckHost() const;

  // Handshake. Errors as the proto has them.
  absl::StatusOr<v1::HandshakeReply> Answer(const v1::HandshakeRequest& request,
                                            std::string_view peer) const;

  // Who makes the call: `principal` is set unless it is refused. A proof is good once.
  Refusal Check(const Call& call, Principal* principal);
  // The same of gRPC's context.
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
  const std::string nobodys_secret_;  // stands in for a token that we do not have
  Challenges challenges_;
};

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_AUTHENTICATOR_H_
