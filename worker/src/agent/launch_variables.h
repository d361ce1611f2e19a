// What the launcher says in the environment, of the generation that this process is in.
//
// A process begins with its own environment. One that stays while the job forms anew gets the next
// generation's values with GO=1, and its own environment stays as it is: other threads of the
// program may be reading that.
#ifndef DDPRUN_WORKER_SRC_AGENT_LAUNCH_VARIABLES_H_
#define DDPRUN_WORKER_SRC_AGENT_LAUNCH_VARIABLES_H_

#include <string>

namespace ddp::internal {

// The value of one of ddprun::env::kVariables, or null. Valid until the next generation.
const char* LaunchVariable(const char* name);

// From now on they are those of `entries`: NAME=value, each with a NUL behind it. While no other
// thread asks for them.
void SetLaunchVariables(const std::string& entries);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_LAUNCH_VARIABLES_H_
