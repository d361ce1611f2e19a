// Makes a certificate authority and certificates for the nodes of a job, by OpenSSL: EC P-256 keys,
// SHA-256. Blocks on the disk.
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
  std::string folder;  // made, with mode 0700, where it is missing
  // Common name of every certificate: who the jobs belong to. The same on all nodes of a job.
  std::string name;
  // One certificate each: host names and addresses for which it is good. The first one names the
  // files.
  std::vector<std::vector<std::string>> nodes;
  // Counted from now; negative makes one that has expired, for tests.
  std::chrono::seconds lifetime = std::chrono::hours(24 * kDefaultCertificateDays);
};

// Writes ca.crt and ca.key where the folder has neither, else uses those; then NODE.crt and
// NODE.key for each node. Keys have mode 0600. Every certificate is for servers and clients alike,
// and also good for localhost, 127.0.0.1 and ::1. Returns the paths that were written. Errors:
// AlreadyExists rather than writing over a file (nothing is written then), InvalidArgument for a
// name that is none, others from the disk.
absl::StatusOr<std::vector<std::string>> MakeCertificates(const CertificatesToMake& what);

// A certificate for servers that no authority vouches for, and its key: in memory, of the same
// kind, good for ten years. It says nothing of who has made it. `hosts`: names and addresses that a
// browser may look for in it; what is neither is left out.
TlsPem MakeSelfSigned(const std::string& name, const std::vector<std::string>& hosts = {});

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_CERTIFICATES_H_
