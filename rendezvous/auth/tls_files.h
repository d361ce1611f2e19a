// Certificates and keys as PEM files, checked before anybody connects: what gRPC would say of a bad
// one comes late and explains little. OpenSSL.
#ifndef DDPRUN_RENDEZVOUS_AUTH_TLS_FILES_H_
#define DDPRUN_RENDEZVOUS_AUTH_TLS_FILES_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace ddprun::auth {

// Where they are; empty: none.
struct TlsPaths {
  std::string ca;
  std::string cert;
  std::string key;
  // In errors: what the flags that name them begin with.
  std::string flags = "--tls";
};

struct TlsPem {
  std::string ca;  // empty: none
  std::string cert;
  std::string key;
  // What will have to be done soon, for a person: a certificate that ends within two weeks. Or "".
  std::string warning;
  std::string until;  // when `cert` ends, for a person; "" without one
};

// Reads the files whose paths are not empty. `now` is the wall clock. Errors name the path: a file
// that cannot be read, that is no PEM, a key that others may read or that belongs to another
// certificate, a certificate that is not valid at `now` (with the date).
absl::StatusOr<TlsPem> LoadTlsFiles(const TlsPaths& paths,
                                    std::chrono::system_clock::time_point now);

// When the certificate in this PEM file ends, as Unix time in seconds; nullopt: it cannot be read.
std::optional<std::int64_t> ExpiryOf(const std::string& path);

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_TLS_FILES_H_
