// The text that `ps` shows for this process instead of its command line. So a person, or `pkill -f`
// with the words of the job, can tell a helper process from the agent it was forked from.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_TITLE_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_TITLE_H_

#include <string>

namespace ddprun {

// Overwrites main's argv, which must not be used afterwards, but not the environment. Cuts a title
// that is longer than the command line. Does nothing if the kernel does not tell the place of argv.
// Call it while the process has one thread.
void SetProcessTitle(const std::string& title);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_TITLE_H_
