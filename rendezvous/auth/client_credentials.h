// The caller's side of authentication: an agent or an operator's command proves its identity.
// Before that, it checks the identity of the rendezvous.
//
// Any thread. An object from OfTokenFile takes part in one Handshake at a time. With MUNGE, Check
// and Prove ask munged (MUNGE's daemon), and block as in munge.h.
#ifndef DDPRUN_RENDEZVOUS_AUTH_CLIENT_CREDENTIALS_H_
#define DDPRUN_RENDEZVOUS_AUTH_CLIENT_CREDENTIALS_H_

#include <grpcpp/client_context.h>
#include <grpcpp/security/credentials.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
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
  // Reads the files and loads libmunge. Blocks on the disk. With empty options, the credentials
  // prove nothing. Errors are sentences for the user; InvalidArgument if the options do not fit
  // together. With `log`, TLS files are read again when they change, and `log` receives the result.
  static absl::StatusOr<std::shared_ptr<const ClientCredentials>> Load(
      const CredentialOptions& options, TlsWatch::Log log = {});

  // Credentials from the token file of a rendezvous of this user, without TLS files. The file is
  // read for each Handshake, because a restarted rendezvous makes another token. If the file is
  // missing or LoadTokens refuses it, a random token is used. Nobody else knows this token, so no
  // process that listens at the endpoint is trusted.
  static std::shared_ptr<const ClientCredentials> OfTokenFile(std::string path);

  // Only for OfTokenFile: the file's token has changed since the last Handshake, so the outcome of
  // that Handshake means nothing.
  bool Outdated() const;

  // With MUNGE: whether munged makes a credential.
  absl::Status Check() const;

  // How one channel connects.
  struct Transport {
    std::shared_ptr<grpc::ChannelCredentials> credentials;
    enum class Tls {
      kNone,
      kUnverified,  // the Handshake's proofs show that the rendezvous has the certificate
      kVerified,    // by the authority in --tls-ca
    } tls = Tls::kNone;
  };
  // The transport of one new channel:
  // - with TLS files: TLS with these files;
  // - else, with a token or MUNGE and a rendezvous that other hosts can reach: TLS with any server
  //   certificate, and the proofs cover that certificate;
  // - else: no TLS, until OnUnheard finds that the other side uses TLS. This happens on loopback if
  //   the rendezvous listens on all addresses.
  Transport NewTransport() const;
  // Call it when a channel of this transport got no answer. `closed`: the other side closed the
  // connection at once, as a server does that expects TLS; false: the other side does not use TLS.
  // Returns true if NewTransport() will return a different transport.
  bool OnUnheard(Transport::Tls tls, bool closed) const;
  // Something that the user has to do soon, or "".
  const std::string& warning() const { return warning_; }

  // Whether each call needs a Handshake on its channel first. The result of the Handshake goes into
  // the call's metadata:
  //
  //     request = NewHandshake();  // ... stub->Handshake(&context, request) → reply
  //     metadata = Prove(request, reply, "Session", ServerCertificateOf(context));
  //     context.AddMetadata(kProofMetadata, *metadata);
  bool handshakes() const { return token_.has_value() || munge_ != nullptr; }
  v1::HandshakeRequest NewHandshake() const;

  // Checks the server's proof, and makes this caller's proof for one call. `certificate`: the
  // server's certificate in the Handshake, from ServerCertificateOf (tls/peer_certificate.h).
  // Errors: PermissionDenied if the server's proof is wrong, or made for another certificate (then
  // nothing may be sent to it); FailedPrecondition and Unavailable from MUNGE, as for
  // Munge::Encode.
  absl::StatusOr<std::string> Prove(const v1::HandshakeRequest& request,
                                    const v1::HandshakeReply& reply, const std::string& method,
                                    const std::string& certificate) const;

  // Does all these steps, for a caller that may block until `deadline`. Makes the Handshake and
  // adds its result to `call`, the context of the next call to `method` on the same stub. `stop`
  // ends the Handshake early. Does nothing unless handshakes().
  absl::Status Authorize(v1::Rendezvous::Stub& stub, const std::string& method,
                         std::chrono::system_clock::time_point deadline, grpc::ClientContext* call,
                         const std::stop_token& stop = {}) const;

 private:
  ClientCredentials() = default;
  std::optional<Token> TokenInFile() const;
  std::string WhyUnknown() const;
  // Checks the server's proof. Returns the user who runs the rendezvous; nullopt without MUNGE.
  absl::StatusOr<std::optional<uid_t>> CheckServer(const v1::HandshakeReply& reply,
                                                   const std::string& transcript) const;

  std::shared_ptr<TlsIdentity> identity_;  // from TLS files; null: none
  std::unique_ptr<TlsWatch> watch_;        // updates identity_ when its files change
  std::string warning_;
  std::string token_path_;      // of OfTokenFile
  mutable bool found_ = false;  // set by NewHandshake: token_ came from the file
  // token_ or munge_, never both.
  mutable std::optional<Token> token_;
  std::shared_ptr<const Munge> munge_;
  bool reachable_ = false;
  mutable std::atomic<bool> heard_of_tls_{false};  // without TLS files: the other side uses TLS
};

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_CLIENT_CREDENTIALS_H_
