// Which credentials a process is started with: paths and names, nothing secret.
#ifndef DDPRUN_RENDEZVOUS_AUTH_CREDENTIAL_OPTIONS_H_
#define DDPRUN_RENDEZVOUS_AUTH_CREDENTIAL_OPTIONS_H_

#include <string>

#include "rendezvous/auth/tls_files.h"

namespace ddprun::auth {

struct CredentialOptions {
  std::string token_file;  // empty: no token
  // PEM files; all empty: no TLS. A client needs `tls_ca`, and the other two where the server asks
  // for certificates. A server needs `tls_cert` and `tls_key`, and asks for them with `tls_ca`.
  std::string tls_ca;
  std::string tls_cert;
  std::string tls_key;
  bool munge = false;
  std::string munge_socket;  // of munged; empty: where the library looks for it
  // Other hosts can reach the rendezvous: its address is neither loopback nor a Unix socket. Then
  // tokens and MUNGE travel over TLS, also without any files of it.
  bool reachable = false;

  TlsPaths tls_paths() const { return {tls_ca, tls_cert, tls_key}; }
  bool tls() const { return !tls_ca.empty() || !tls_cert.empty() || !tls_key.empty(); }
  bool handshakes() const { return munge || !token_file.empty(); }
  bool any() const { return tls() || handshakes(); }
};

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_CREDENTIAL_OPTIONS_H_
