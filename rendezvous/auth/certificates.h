// Makes a certificate authority and certificates for the nodes of a job: EC P-256 keys, SHA-256.
// Uses OpenSSL. Blocks on the disk.
#ifndef DDPRUN_RENDEZVOUS_AUTH_CERTIFICATES_H_
#define DDPRUN_RENDEZVOUS_AUTH_CERTIFICATES_H_

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rendezvous/auth/tls_files.h"
#include "rendezvous/core/limits.h"

namespace ddprun::auth {

struct CertificatesToMake {
  std::string folder;  // created with mode 0700 if missing
  // The common name of every certificate. Jobs belong to this name, so it is the same on all nodes
  // of a job.
  std::string name;
  // One certificate for each element: the host names and addresses for which it is valid. The first
  // one names the files.
  std::vector<std::vector<std::string>> nodes;
  // Counted from now. Negative: already expired, for tests.
  std::chrono::seconds lifetime = std::chrono::hours(24 * kDefaultCertificateDays);
};

// Uses ca.crt and ca.key of the folder; writes both if the folder has neither. Then writes NODE.crt
// and NODE.key for each node. Keys have mode 0600. A node's certificate is valid for servers and
// for clients, and also for localhost, 127.0.0.1 and ::1. Returns the paths of the written files.
// Errors: AlreadyExists if a file would be overwritten (then nothing is written), InvalidArgument
// for an invalid name, others from the disk.
absl::StatusOr<std::vector<std::string>> MakeCertificates(const CertificatesToMake& what);

// A self-signed server certificate and its key, in memory. Same kind of key, valid for ten years.
// It does not prove who made it. `hosts`: names and addresses by which browsers may reach the
// server; invalid ones are left out.
TlsPem MakeSelfSigned(const std::string& name, const std::vector<std::string>& hosts = {});

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_CERTIFICATES_H_
