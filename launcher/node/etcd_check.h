// Judges whether several rendezvous can share an etcd, for `ddprun doctor --etcd`. Pure;
// etcd_facts.h collects the facts.
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

// How far a member's clock is ahead of this host's clock: lower and upper bound.
struct ClockAhead {
  std::chrono::milliseconds least{};
  std::chrono::milliseconds most{};
};

struct EtcdFacts {
  struct Member {
    std::string endpoint;  // as given by the user
    absl::StatusOr<etcd::MemberStatus> status = absl::UnknownError("");
    absl::StatusOr<ClockAhead> clock = absl::UnknownError("was not asked");
    // Its --election-timeout; an error if the member does not report it.
    absl::StatusOr<std::chrono::milliseconds> election = absl::UnknownError("was not asked");
  };
  // The result of Client::Create: whether the TLS files and the password are usable. If it is an
  // error, only `tls`, `loopback` and `insecure` of the following fields are set.
  absl::Status options;
  std::vector<Member> members;
  // Median times of a few read-only transactions, and of a few transactions whose guard fails. The
  // latter go through consensus but write nothing.
  absl::StatusOr<std::chrono::microseconds> read = absl::UnknownError("");
  absl::StatusOr<std::chrono::microseconds> write = absl::UnknownError("");
  bool tls = false;
  bool loopback = false;  // all given endpoints are loopback
  bool insecure = false;  // --insecure
};

// One finding for each check, always in the same order. If no member answers, there are only the
// findings about members and TLS. If `options` is an error, it is the only finding.
std::vector<Finding> JudgeEtcd(const EtcdFacts& facts);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_NODE_ETCD_CHECK_H_
