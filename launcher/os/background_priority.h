// Lowers the CPU priority of a process group for a while.
#ifndef DDPRUN_LAUNCHER_OS_BACKGROUND_PRIORITY_H_
#define DDPRUN_LAUNCHER_OS_BACKGROUND_PRIORITY_H_

#include <sys/types.h>

namespace ddprun {

// True: this process is allowed to undo LowerPriority. Without CAP_SYS_NICE or a suitable
// RLIMIT_NICE, a process can only raise nice values. Tried once; later calls return the same. Any
// thread.
bool CanRestorePriority();

// LowerPriority sets nice value 5 for every thread of every process of the group; RestorePriority
// sets the agent's own value again. Both do nothing if CanRestorePriority() is false, or if the
// group is gone.
void LowerPriority(pid_t group);
void RestorePriority(pid_t group);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_BACKGROUND_PRIORITY_H_
