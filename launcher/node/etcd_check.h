// Whether several rendezvous can share an etcd: what `ddprun doctor --etcd` says of what was found.
// Pure; etcd_facts.h looks.
#ifndef DDPRUN_LAUNCHER_NODE_ETCD_CHECK_H_
#define DDPRUN_LAUNCHER_NODE_ETCD_CHECK_H_

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/node/node_check.h"
#include "rendezvous/etcd/etcd_client.h"

namespace ddprun {

struct EtcdFacts {
  struct Member {
    std::string endpoint;  // as it was given
    absl::StatusOr<etcd::MemberStatus> status = absl::UnknownError("");
  };
  absl::Status
      options;  // whether the files of TLS and the password can be used; if not, no more is
  std::vector<Member> members;
  // The median of a few transactions that only read, and of a few that would write but cannot.
  absl::StatusOr<std::chrono::microseconds> read = absl::UnknownError("");
  absl::StatusOr<std::chrono::microseconds> write = absl::UnknownError("");
  bool tls = false;
  bool loopback = false;  // all that were given
  bool insecure = false;  // --insecure
};

// One finding for each check, always in the same order. Where nobody answers, only of members and
// TLS.
std::vector<Finding> JudgeEtcd(const EtcdFacts& facts);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_NODE_ETCD_CHECK_H_
