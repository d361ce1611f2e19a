#include "rendezvous/auth/tls/transport.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "rendezvous/auth/certificates.h"
#include "rendezvous/auth/tls/peer_certificate.h"
#include "rendezvous/core/check.h"

namespace ddprun::auth {
namespace {

// Accepts the first certificate that it sees, and then no other. A channel may reconnect between a
// Handshake and the call that carries the proof, and the proof covers one certificate.
class FirstCertificate final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>, grpc::Status* status) override {
    const grpc::string_ref pem = request->peer_cert();
    std::string sha256 = CertificateSha256({pem.data(), pem.size()});
    const std::lock_guard lock(mutex_);
    if (first_.empty()) first_ = sha256;
    *status = !sha256.empty() && sha256 == first_
                  ? grpc::Status::OK
                  : grpc::Status(grpc::StatusCode::UNAUTHENTICATED, kCertificateChanged);
    return true;  // done
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  std::mutex mutex_;
  std::string first_;  // guarded by mutex_
};

// Makes gRPC ask for the certificate at each new connection. gRPC's C++ credentials do not offer
// that, its C API does.
class ReloadingServerCredentials final : public grpc::ServerCredentials {
 public:
  explicit ReloadingServerCredentials(std::shared_ptr<const TlsIdentity> identity)
      : identity_(std::move(identity)) {
    const bool asks = !identity_->current()->ca.empty();
    credentials_ = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            asks ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                 : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            &Fetch, this));
  }
  ~ReloadingServerCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
    DDPRUN_CHECK(false, "not supported");
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  // gRPC calls it with a lock of the port held.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    auto& credentials = *static_cast<ReloadingServerCredentials*>(self);
    auto next = credentials.identity_->current();
    if (next == credentials.given_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair{next->key.c_str(), next->cert.c_str()};
    // gRPC requires an authority even if no client certificate is asked for.
    const std::string& authority = next->ca.empty() ? next->cert : next->ca;
    *config = grpc_ssl_server_certificate_config_create(authority.c_str(), &pair, 1);
    credentials.given_ = std::move(next);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::shared_ptr<const TlsIdentity> identity_;
  grpc_server_credentials* credentials_ = nullptr;
  std::shared_ptr<const TlsPem> given_;  // the content that gRPC has; only Fetch uses it
};

}  // namespace

std::shared_ptr<grpc::ChannelCredentials> VerifiedTls(const TlsPem& pem) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = pem.ca;
  options.pem_cert_chain = pem.cert;
  options.pem_private_key = pem.key;
  return grpc::SslCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> UnverifiedTls() {
  // Without an authority, gRPC would read the system's, and fail if there are none.
  static const std::string& nobodys_authority = *new std::string(MakeSelfSigned("nobody").cert);
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::StaticDataCertificateProvider>(nobodys_authority));
  options.watch_root_certs();
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<FirstCertificate>());
  return grpc::experimental::TlsCredentials(options);
}

std::shared_ptr<grpc::ServerCredentials> TlsServer(std::shared_ptr<const TlsIdentity> identity) {
  return std::make_shared<ReloadingServerCredentials>(std::move(identity));
}

}  // namespace ddprun::auth
