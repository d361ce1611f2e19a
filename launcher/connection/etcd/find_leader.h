// FindLeaderInEtcd: the endpoint of the rendezvous that leads by an etcd, for operators' commands.
#ifndef DDPRUN_LAUNCHER_CONNECTION_ETCD_FIND_LEADER_H_
#define DDPRUN_LAUNCHER_CONNECTION_ETCD_FIND_LEADER_H_

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "launcher/config/etcd/etcd_access.h"

namespace ddprun {

// Reads the leader key until it names a rendezvous, at most for `limit`. The rendezvous may be
// gone. Errors, for people: InvalidArgument for an etcd to which others could write, and for files
// that do not fit; Unavailable if etcd does not answer, or nobody leads.
absl::StatusOr<std::string> FindLeaderInEtcd(const EtcdAccess& etcd, bool insecure,
                                             std::chrono::milliseconds limit);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_ETCD_FIND_LEADER_H_
