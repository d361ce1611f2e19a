// The caller's side of Handshake: how an agent or an operator's command shows who it is, and makes
// sure that the rendezvous knows the same secret before it says anything.
//
// Any thread; but those of OfTokenFile are for one Handshake at a time. With MUNGE, Prove asks
// munged, which takes about a millisecond.
#ifndef DDPRUN_RENDEZVOUS_AUTH_CLIENT_CREDENTIALS_H_
#define DDPRUN_RENDEZVOUS_AUTH_CLIENT_CREDENTIALS_H_

#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/auth/credential_options.h"
#include "rendezvous/auth/munge.h"
#include "rendezvous/auth/tls/identity.h"
#include "rendezvous/auth/tls/watch.h"
#include "rendezvous/auth/tokens.h"

namespace ddprun::auth {

class ClientCredentials {
 public:
  // Reads the files and loads libmunge. Options of all empty give those of nobody. Blocks on the
  // disk. Errors are sentences for the user, InvalidArgument where the options do not fit together.
  // With `log`, which hears of it, files of TLS are read again when they have changed.
  static absl::StatusOr<std::shared_ptr<const ClientCredentials>> Load(
      const CredentialOptions& options, TlsWatch::Log log = {});

  // The token that a rendezvous of this user keeps in a file, without TLS. The file is read for
  // each Handshake: a rendezvous that is started again makes another token. Where there is none, a
  // random one is shown. Nobody knows it, so whoever listens there is not trusted, and hears
  // nothing.
  static std::shared_ptr<const ClientCredentials> OfTokenFile(std::string path);

  // Those of OfTokenFile: the file has another token than in the last Handshake, so that its
  // outcome means nothing.
  bool Outdated() const;

  // Whether what they need beside files answers: with MUNGE, that munged makes a credential.
  absl::Status Check() const;

  // How one channel connects.
  struct Transport {
    std::shared_ptr<grpc::ChannelCredentials> credentials;
    enum class Tls {
      kNone,
      kUnverified,  // only the proofs of a Handshake show whose certificate it is
      kVerified,    // by --tls-ca
    } tls = Tls::kNone;
  };
  // For one channel: with files of TLS, by those; with something to show and a rendezvous that
  // other hosts can reach, by TLS with any certificate, to which the proofs are bound. Else without
  // TLS, until OnUnheard learns that the other side speaks it: a rendezvous that listens on all
  // addresses does so on loopback, too.
  Transport NewTransport() const;
  // A channel of this transport was not answered: the other side `closed` it at once, or does not
  // speak TLS. Whether the next transport will be another one.
  bool OnUnheard(Transport::Tls tls, bool closed) const;
  // What will have to be done soon, or "".
  const std::string& warning() const { return warning_; }

  // Whether a call needs a Handshake on its channel before it, and its outcome as metadata:
  //
  //     request = NewHandshake();  // ... stub->Handshake(&context, request) → reply
  //     metadata = Prove(request, reply, "Session", ServerCertificateOf(context));
  //     context.AddMetadata(kProofMetadata, *metadata);
  bool handshakes() const { return token_.has_value() || munge_ != nullptr; }
  v1::HandshakeRequest NewHandshake() const;

  // Checks the server's proof, and makes ours for one call. `certificate`: the server's, as
  // ServerCertificateOf the Handshake has it (tls/peer_certificate.h). Errors: PermissionDenied
  // when the server does not know the secret, or is not the one that has shown the certificate
  // (nothing may be sent to it then); Unavailable when MUNGE fails.
  absl::StatusOr<std::string> Prove(const v1::HandshakeRequest& request,
                                    const v1::HandshakeReply& reply, const std::string& method,
                                    const std::string& certificate) const;

  // All of that, for a caller that may block until `deadline`: the Handshake, and its outcome added
  // to `call`, which is about to call `method` on the same stub. Nothing to do without
  // handshakes().
  absl::Status Authorize(v1::Rendezvous::Stub& stub, const std::string& method,
                         std::chrono::system_clock::time_point deadline,
                         grpc::ClientContext* call) const;

 private:
  ClientCredentials() = default;
  std::optional<Token> TokenInFile() const;
  std::string WhyUnknown() const;
  // The user whose rendezvous it is; without MUNGE nobody.
  absl::StatusOr<std::optional<uid_t>> CheckServer(const v1::HandshakeReply& reply,
                                                   const std::string& transcript) const;

  std::shared_ptr<TlsIdentity> identity_;  // of files; null: none
  std::unique_ptr<TlsWatch> watch_;        // of that
  std::string warning_;
  std::string token_path_;  // of OfTokenFile
  mutable bool found_ =
      false;  // the file had the token; by the last NewHandshake, as `token_` then
  // At most one of them.
  mutable std::optional<Token> token_;
  std::shared_ptr<const Munge> munge_;
  bool reachable_ = false;
  mutable std::atomic<bool> heard_of_tls_{false};  // without files: the other side speaks it
};

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_CLIENT_CREDENTIALS_H_
