// The limit of open descriptors of this process.
#ifndef DDPRUN_LAUNCHER_OS_DESCRIPTOR_LIMIT_H_
#define DDPRUN_LAUNCHER_OS_DESCRIPTOR_LIMIT_H_

namespace ddprun {

// Raises the soft limit to the hard limit. An agent needs a few descriptors per worker, and the
// rendezvous needs one per agent. The usual soft limit of 1024 exists for programs that use
// select(). On failure the limit stays. Children inherit the limit. So the agent calls this after
// it has started the guardian: the workers keep the user's limit.
void RaiseDescriptorLimit();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_DESCRIPTOR_LIMIT_H_
