// What `ps` shows for this process instead of its command line, so that a person, and a `pkill -f`
// with the words of the job, can tell a helper process from the agent it was forked from.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_TITLE_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_TITLE_H_

#include <string>

namespace ddprun {

// Writes over main's argv, which nothing may use afterwards; its environment is left alone. A title
// that is longer than the command line is cut. Does nothing where the kernel does not tell where
// argv is. From a process's only thread.
void SetProcessTitle(const std::string& title);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_PROCESS_TITLE_H_
