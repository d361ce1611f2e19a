// What /proc says of a rank: whether it runs, what it has used, and what it waits for.
//
// Reads a few small files of procfs, which never wait for a disk. Any thread. What cannot be read,
// because the process is gone or another user's, is left as it is in a fresh ProcessFacts.
//
// Costs some 15 µs for each thread and each process that is looked at: 3 ms for a rank of 200
// threads. The agent's loop does it, so only of ranks that stand still (StillWatch::FactsOf).
#ifndef DDPRUN_LAUNCHER_AGENT_PROCESS_FACTS_H_
#define DDPRUN_LAUNCHER_AGENT_PROCESS_FACTS_H_

#include <sys/types.h>

#include "launcher/core/still_watch.h"

namespace ddprun {

// Of a rank, whose processes are `worker`, the one that speaks for it, and what both have started;
// the first 64 of them. `state` and `waits_for` are of the speaker's first thread, but a rank with
// a stopped process is stopped. `waited` and `disk` are of the speaker's first 512 threads, and
// `disk` else of another process.
ProcessFacts ReadProcessFacts(pid_t worker, pid_t speaker);
inline ProcessFacts ReadProcessFacts(pid_t pid) { return ReadProcessFacts(pid, pid); }

// Of a process that SIGKILL has not ended: `state` and `waits_for` are of a thread that holds it,
// which need not be the first. The rest is not set.
ProcessFacts ReadStuckProcess(pid_t pid);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_PROCESS_FACTS_H_
