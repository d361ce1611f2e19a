// The credentials that a process is started with: paths and names, no secrets.
#ifndef DDPRUN_RENDEZVOUS_AUTH_CREDENTIAL_OPTIONS_H_
#define DDPRUN_RENDEZVOUS_AUTH_CREDENTIAL_OPTIONS_H_

#include <string>

#include "rendezvous/auth/tls_files.h"

namespace ddprun::auth {

struct CredentialOptions {
  std::string token_file;  // empty: no token
  // PEM files; all empty: no TLS files. A client needs `tls_ca`; it also needs `tls_cert` and
  // `tls_key` if the server asks for certificates. A server needs `tls_cert` and `tls_key`; with
  // `tls_ca` it asks clients for certificates.
  std::string tls_ca;
  std::string tls_cert;
  std::string tls_key;
  bool munge = false;
  std::string munge_socket;  // munged's socket; empty: libmunge's default
  // Other hosts can reach the rendezvous: its address is neither loopback nor a Unix socket. Then
  // calls with tokens or MUNGE use TLS, even without TLS files.
  bool reachable = false;

  TlsPaths tls_paths() const { return {tls_ca, tls_cert, tls_key}; }
  bool tls() const { return !tls_ca.empty() || !tls_cert.empty() || !tls_key.empty(); }
  bool handshakes() const { return munge || !token_file.empty(); }
  bool any() const { return tls() || handshakes(); }
};

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_CREDENTIAL_OPTIONS_H_
