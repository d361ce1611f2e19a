// Ends and reaps the children of this process.
//
// For a subreaper (PR_SET_CHILD_SUBREAPER): a descendant that loses its parent becomes the
// subreaper's child, even a daemon in its own session. So a subreaper without children has no
// descendants.
//
// Call it only from the thread that reaps children. Needs /proc.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_CHILD_REAPER_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_CHILD_REAPER_H_

#include <sys/types.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

namespace ddprun {

// Makes this process a subreaper. Its children do not inherit this.
void BecomeSubreaper();

// ExcludeChild: this child belongs to no worker, and other code reaps it. The functions below
// ignore it until IncludeChild.
void ExcludeChild(pid_t pid);
void IncludeChild(pid_t pid);

// The children of this process, zombies included, in no order.
std::vector<pid_t> ListChildren();

// Reaps ended children, except `spared`. Kills no process and never waits.
void ReapEndedChildren(const std::set<pid_t>& spared);

// Sends SIGKILL to every child except `spared` and reaps it. Repeats this for descendants that
// become children, until no child is left or `limit` is over. Returns the remaining children:
// processes in an uninterruptible wait, of another user, or held by a debugger.
//
// The children of a spared process are not touched.
std::vector<pid_t> EndChildren(const std::set<pid_t>& spared, std::chrono::microseconds limit);

namespace internal {

// Exposed for the test: ListChildren for a kernel without /proc/PID/task/TID/children. It reads the
// stat file of every process.
std::vector<pid_t> ListChildrenByScan();

// The parent in the text of /proc/PID/stat; -1: malformed. A program's name may contain any
// character.
pid_t ParentFromStat(const std::string& stat);

}  // namespace internal
}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_CHILD_REAPER_H_
