// An etcd as the command line names it, for rendezvous/etcd.
#ifndef DDPRUN_LAUNCHER_CONNECTION_ETCD_CLIENT_OPTIONS_H_
#define DDPRUN_LAUNCHER_CONNECTION_ETCD_CLIENT_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "launcher/config/etcd/etcd_access.h"
#include "rendezvous/etcd/etcd_client.h"

namespace ddprun {

etcd::Options ClientOptionsOf(const EtcdAccess& etcd);

// The flags by which `ddprun rendezvous` reaches the same. Paths, nothing secret.
std::vector<std::string> EtcdArguments(const EtcdAccess& etcd);

// OK where nobody else can write the leader key, as far as the flags tell; else InvalidArgument,
// for people. `flag`: the one that names the endpoints.
absl::Status CheckEtcd(const EtcdAccess& etcd, bool insecure, const std::string& flag);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_ETCD_CLIENT_OPTIONS_H_
