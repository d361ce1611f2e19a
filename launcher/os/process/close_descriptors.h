// Closes what a process has inherited and must not keep.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_CLOSE_DESCRIPTORS_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_CLOSE_DESCRIPTORS_H_

#include <initializer_list>

namespace ddprun {

// All of this process but 0, 1 and 2, and `kept`, which are above them and in ascending order.
// Allocates nothing.
void CloseDescriptorsBut(std::initializer_list<int> kept);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_CLOSE_DESCRIPTORS_H_
