// Turns the etcd flags of the command line into options of rendezvous/etcd.
#ifndef DDPRUN_LAUNCHER_CONNECTION_ETCD_CLIENT_OPTIONS_H_
#define DDPRUN_LAUNCHER_CONNECTION_ETCD_CLIENT_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "launcher/config/etcd/etcd_access.h"
#include "rendezvous/etcd/etcd_client.h"

namespace ddprun {

etcd::Options ClientOptionsOf(const EtcdAccess& etcd);

// The flags with which `ddprun rendezvous` reaches the same etcd. They contain paths, and nothing
// secret.
std::vector<std::string> EtcdArguments(const EtcdAccess& etcd);

// OK if nobody else can write the leader key, as far as the flags show, or if `insecure` accepts
// this. Else InvalidArgument, for people. `flag`: the flag that names the endpoints.
absl::Status CheckEtcd(const EtcdAccess& etcd, bool insecure, const std::string& flag);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_ETCD_CLIENT_OPTIONS_H_
