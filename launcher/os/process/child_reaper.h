// Ends and collects the children of this process.
//
// For a process that is a subreaper (PR_SET_CHILD_SUBREAPER): whatever loses its parent anywhere
// below it becomes its child, also a daemon with a session of its own. So when it has no child
// left, nothing is left below it.
//
// From the one thread that collects children. Needs /proc.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_CHILD_REAPER_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_CHILD_REAPER_H_

#include <sys/types.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

namespace ddprun {

// Makes this process the one to which everything below it falls that loses its parent. Not
// inherited by its children.
void BecomeSubreaper();

// A child that is no worker's and is collected elsewhere. The functions below ignore an excluded
// child.
void ExcludeChild(pid_t pid);
void IncludeChild(pid_t pid);

// The children of this process, zombies too, in no order.
std::vector<pid_t> ListChildren();

// Collects the children that have ended, except `spared`. Kills nobody and never waits.
void ReapEndedChildren(const std::set<pid_t>& spared);

// Sends SIGKILL to every child except `spared`, collects them, and goes on with what became our
// child by that, until none is left or `limit` is over. Returns those that are left: a process in
// an uninterruptible wait, of another user, or held by a debugger.
//
// A process that is spared keeps its own children.
std::vector<pid_t> EndChildren(const std::set<pid_t>& spared, std::chrono::microseconds limit);

namespace internal {

// For the test: ListChildren where the kernel has no /proc/PID/task/TID/children, by looking at
// every process.
std::vector<pid_t> ListChildrenByScan();

// The parent in the text of /proc/PID/stat; -1 when it is not one. A program's name may hold any
// character.
pid_t ParentFromStat(const std::string& stat);

}  // namespace internal
}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_CHILD_REAPER_H_
