// How many descriptors this process may have open.
#ifndef DDPRUN_LAUNCHER_OS_DESCRIPTOR_LIMIT_H_
#define DDPRUN_LAUNCHER_OS_DESCRIPTOR_LIMIT_H_

namespace ddprun {

// Raises it as far as it may without privileges: each worker takes a few descriptors of its agent,
// each agent one of the rendezvous, and the usual soft limit of 1024 is for programs that use
// select(). Leaves it as it was where that fails. Children inherit it: before any is started.
void RaiseDescriptorLimit();

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_DESCRIPTOR_LIMIT_H_
