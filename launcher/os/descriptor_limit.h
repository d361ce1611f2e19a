// The limit of open descriptors of this process.
#ifndef DDPRUN_LAUNCHER_OS_DESCRIPTOR_LIMIT_H_
#define DDPRUN_LAUNCHER_OS_DESCRIPTOR_LIMIT_H_

namespace ddprun {

// Raises the soft limit to the hard limit. Each worker takes a few descriptors of its agent, each
// agent one of the rendezvous; the usual soft limit of 1024 is for programs that use select(). On
// failure the limit stays. Call it before any child is started: children inherit the limit.
void RaiseDescriptorLimit();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_DESCRIPTOR_LIMIT_H_
