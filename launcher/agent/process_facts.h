// What /proc says of a process: whether it runs, what it has used, and what it waits for.
//
// Reads a few small files of procfs, which never wait for a disk. Any thread. What cannot be read,
// because the process is gone or another user's, is left as it is in a fresh ProcessFacts.
#ifndef DDPRUN_LAUNCHER_AGENT_PROCESS_FACTS_H_
#define DDPRUN_LAUNCHER_AGENT_PROCESS_FACTS_H_

#include <sys/types.h>

#include "launcher/core/still_watch.h"

namespace ddprun {

// Of the process as a whole; `state` and `waits_for` are its first thread's. `waited` and `disk`
// are of the first 512 threads.
ProcessFacts ReadProcessFacts(pid_t pid);

// Of a process that SIGKILL has not ended: `state` and `waits_for` are of a thread that holds it,
// which need not be the first. The rest is not set.
ProcessFacts ReadStuckProcess(pid_t pid);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_PROCESS_FACTS_H_
