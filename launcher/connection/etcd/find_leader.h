// FindLeaderInEtcd: the endpoint of the rendezvous that leads by an etcd, for operators' commands.
#ifndef DDPRUN_LAUNCHER_CONNECTION_ETCD_FIND_LEADER_H_
#define DDPRUN_LAUNCHER_CONNECTION_ETCD_FIND_LEADER_H_

#include <chrono>
#include <string>

#include "absl/status/statusor.h"
#include "launcher/config/etcd/etcd_access.h"

namespace ddprun {

// Reads the leader key until it names a rendezvous, for `limit` and at most one read more
// (MeetingKeys::kLimit). The rendezvous may be gone. Errors, for people. InvalidArgument: others
// could write to this etcd, or a file is unusable. Unauthenticated, PermissionDenied: etcd refuses
// the user. Unavailable: etcd does not answer, or nobody leads.
absl::StatusOr<std::string> FindLeaderInEtcd(const EtcdAccess& etcd, bool insecure,
                                             std::chrono::milliseconds limit);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_ETCD_FIND_LEADER_H_
