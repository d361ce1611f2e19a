// Lets a process stand behind others for the CPU, for a while.
#ifndef DDPRUN_LAUNCHER_OS_BACKGROUND_PRIORITY_H_
#define DDPRUN_LAUNCHER_OS_BACKGROUND_PRIORITY_H_

#include <sys/types.h>

namespace ddprun {

// Whether this process may take back what LowerPriority does. Without CAP_SYS_NICE or a limit of
// RLIMIT_NICE nobody may: nice values then go up only. Found out once, by trying; any thread.
bool CanRestorePriority();

// Nice value 5, and the agent's own again, for every thread of every process of the group. Do
// nothing where the way back is closed, or for a group that is gone.
void LowerPriority(pid_t group);
void RestorePriority(pid_t group);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_BACKGROUND_PRIORITY_H_
