// Looks at this node for `ddprun doctor` and --preflight. Changes nothing, but for a file that it
// makes and removes in each of the job's folders.
#ifndef DDPRUN_LAUNCHER_NODE_NODE_FACTS_H_
#define DDPRUN_LAUNCHER_NODE_NODE_FACTS_H_

#include <string>
#include <vector>

#include "launcher/config/host.h"
#include "launcher/config/job_config.h"
#include "launcher/node/node_check.h"

namespace ddprun {

// May block on name servers and disks, and for as long as Python needs to import torch, where the
// command is a Python program.
NodeFacts LookAtNode(const JobConfig& config, const Host& host);

// What the loader of this ELF file would load for it, one line each as `ldd` prints them; empty for
// a file that is none, or has no loader. The program itself does not run.
std::vector<std::string> LoaderLines(const std::string& program);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_NODE_NODE_FACTS_H_
