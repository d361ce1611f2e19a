// The launcher's environment variables for the present generation of this process.
//
// At first these are the process's own environment. A process that stays while the group forms
// again gets the values of the next generation with GO=1. Its own environment does not change,
// because other threads of the program may be reading it.
#ifndef DDPRUN_WORKER_SRC_AGENT_LAUNCH_VARIABLES_H_
#define DDPRUN_WORKER_SRC_AGENT_LAUNCH_VARIABLES_H_

#include <string>

namespace ddp::internal {

// The value of one of ddprun::env::kVariables, or null. Valid until the next generation.
const char* LaunchVariable(const char* name);

// Replaces the values by `entries`: NAME=value, each followed by a NUL. No other thread may read
// meanwhile.
void SetLaunchVariables(const std::string& entries);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_LAUNCH_VARIABLES_H_
