// Closes inherited descriptors that a process must not keep.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_CLOSE_DESCRIPTORS_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_CLOSE_DESCRIPTORS_H_

#include <initializer_list>

namespace ddprun {

// Closes all descriptors except 0, 1, 2 and `kept`, which must be above 2 and in ascending order.
// Allocates nothing.
void CloseDescriptorsBut(std::initializer_list<int> kept);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_CLOSE_DESCRIPTORS_H_
