// The launcher's environment variables in the current generation of this process.
//
// In the first generation these are the variables of the process itself. If the process continues
// in the next generation, it gets the new values with GO=1. The environment of the process does not
// change then, because other threads of the program may be reading it.
#ifndef DDPRUN_WORKER_SRC_AGENT_LAUNCH_VARIABLES_H_
#define DDPRUN_WORKER_SRC_AGENT_LAUNCH_VARIABLES_H_

#include <string>

namespace ddp::internal {

// The value of one of ddprun::env::kVariables, or null. Valid until the next generation.
const char* LaunchVariable(const char* name);

// Replaces the values. `entries` is a list of NAME=value, each followed by a NUL. No other thread
// may read the values meanwhile.
void SetLaunchVariables(const std::string& entries);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_LAUNCH_VARIABLES_H_
