// Collects facts of an etcd for `ddprun doctor --etcd`. Changes nothing there.
#ifndef DDPRUN_LAUNCHER_NODE_ETCD_FACTS_H_
#define DDPRUN_LAUNCHER_NODE_ETCD_FACTS_H_

#include "launcher/config/flags/cli.h"
#include "launcher/node/etcd_check.h"

namespace ddprun {

// Blocks, for some seconds if members do not answer.
EtcdFacts LookAtEtcd(const EtcdConfig& config, bool insecure);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_NODE_ETCD_FACTS_H_
