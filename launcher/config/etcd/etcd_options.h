// Makes an EtcdConfig from the flags about etcd.
#ifndef DDPRUN_LAUNCHER_CONFIG_ETCD_ETCD_OPTIONS_H_
#define DDPRUN_LAUNCHER_CONFIG_ETCD_ETCD_OPTIONS_H_

#include <string>
#include <vector>

#include "launcher/config/flags/cli.h"
#include "launcher/config/flags/flags.h"
#include "launcher/config/host.h"

namespace ddprun {

// Without --etcd: an empty config. Appends errors to `errors`.
EtcdConfig TakeEtcd(const FlagReading& reading, const Host& host, std::vector<std::string>* errors);

// The same for a command that only looks into etcd. The flag `endpoints` names the members of etcd.
EtcdAccess TakeEtcdAccess(const FlagReading& reading, const GivenFlag& endpoints, const Host& host,
                          std::vector<std::string>* errors);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONFIG_ETCD_ETCD_OPTIONS_H_
