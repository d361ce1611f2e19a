// The text that `ps` shows for this process instead of its command line. So people, and `pkill -f`
// with words of the job's command line, can tell a helper process from the agent that forked it.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_TITLE_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_TITLE_H_

#include <string>

namespace ddprun {

// Overwrites main's argv, but not the environment; argv must not be used afterwards. Cuts a title
// that is longer than the command line. Does nothing if the kernel does not report the address of
// argv. Call it while the process has one thread.
void SetProcessTitle(const std::string& title);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_TITLE_H_
