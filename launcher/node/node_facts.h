// Collects facts of this node for `ddprun doctor` and --preflight. Makes and removes a file in each
// of the job's folders (if it is missing: in the nearest folder above), and makes the state home
// (launcher/connection/state_home.h) if it is needed and missing. Changes nothing else.
#ifndef DDPRUN_LAUNCHER_NODE_NODE_FACTS_H_
#define DDPRUN_LAUNCHER_NODE_NODE_FACTS_H_

#include <string>
#include <vector>

#include "launcher/config/host.h"
#include "launcher/config/job_config.h"
#include "launcher/node/node_check.h"

namespace ddprun {

// May block on name servers and disks. For a Python program, it also waits until Python has
// imported torch, for at most 60 s.
NodeFacts LookAtNode(const JobConfig& config, const Host& host);

// The libraries that the loader would load for this ELF file, one line each as printed by `ldd`.
// Empty: no ELF file, or no loader. Does not run the program.
std::vector<std::string> LoaderLines(const std::string& program);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_NODE_NODE_FACTS_H_
