// Lowers the CPU priority of a process group for a while.
#ifndef DDPRUN_LAUNCHER_OS_BACKGROUND_PRIORITY_H_
#define DDPRUN_LAUNCHER_OS_BACKGROUND_PRIORITY_H_

#include <sys/types.h>

namespace ddprun {

// True: this process may undo LowerPriority. Without CAP_SYS_NICE or a limit of RLIMIT_NICE a nice
// value can only be raised. Found out once, by a trial. Any thread.
bool CanRestorePriority();

// Set nice value 5, and the agent's own value again, for every thread of every process of the
// group. Both do nothing if CanRestorePriority() is false, or if the group is gone.
void LowerPriority(pid_t group);
void RestorePriority(pid_t group);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_BACKGROUND_PRIORITY_H_
