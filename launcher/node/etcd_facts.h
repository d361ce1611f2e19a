// Looks at an etcd for `ddprun doctor --etcd`. Changes nothing there.
#ifndef DDPRUN_LAUNCHER_NODE_ETCD_FACTS_H_
#define DDPRUN_LAUNCHER_NODE_ETCD_FACTS_H_

#include <string>

#include "launcher/node/etcd_check.h"
#include "rendezvous/etcd/etcd_client.h"

namespace ddprun {

// `prefix`: of the keys. Blocks, for some seconds where members do not answer.
EtcdFacts LookAtEtcd(const etcd::Options& options, const std::string& prefix);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_NODE_ETCD_FACTS_H_
