// Loads and checks certificates and keys in PEM files before the first connection: gRPC reports a
// bad file late and explains little. Uses OpenSSL.
#ifndef DDPRUN_RENDEZVOUS_AUTH_TLS_FILES_H_
#define DDPRUN_RENDEZVOUS_AUTH_TLS_FILES_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace ddprun::auth {

// Paths; empty: no such file.
struct TlsPaths {
  std::string ca;
  std::string cert;
  std::string key;
  // Prefix of the flags that set the paths, for error texts.
  std::string flags = "--tls";
};

struct TlsPem {
  std::string ca;  // empty: none
  std::string cert;
  std::string key;
  // Something that a person has to do soon: a certificate in `ca` or `cert` expires within two
  // weeks. "": nothing.
  std::string warning;
  std::string until;  // when `cert` ends, for a person; "" without one
};

// Reads the files whose paths are not empty. `now`: the wall clock. Errors name the path: a file
// cannot be read or is not PEM; others may read the key; the key belongs to another certificate;
// the certificate is not valid at `now` (with the date).
absl::StatusOr<TlsPem> LoadTlsFiles(const TlsPaths& paths,
                                    std::chrono::system_clock::time_point now);

// When the first certificate in this PEM file expires: Unix time in seconds. nullopt: it cannot be
// read.
std::optional<std::int64_t> ExpiryOf(const std::string& path);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_TLS_FILES_H_
