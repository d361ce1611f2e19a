// The facts about a rank from /proc: its state, its use of resources, and what it waits for.
//
// Reads a few small files of procfs, which never wait for a disk. Any thread. A fact keeps its
// default if it cannot be read, because the process is gone or belongs to another user.
//
// Costs some 15 µs per thread and per process: 3 ms for a rank of 200 threads. The agent's loop
// pays this, so it reads only ranks that stand still (StillWatch::FactsOf).
#ifndef DDPRUN_LAUNCHER_AGENT_PROCESS_FACTS_H_
#define DDPRUN_LAUNCHER_AGENT_PROCESS_FACTS_H_

#include <sys/types.h>

#include "launcher/core/still_watch.h"
#include "launcher/os/tcp_bytes.h"

namespace ddprun {

// The facts of a rank. A rank's processes are `worker`, `speaker` (the process that reports for the
// rank) and the descendants of both; the first 64 are read. `tcp`: counters of the node's
// connections, a moment old; nullptr: not known. In the result, `state` and `waits_for` describe
// the speaker's first thread, but a rank with a stopped process counts as stopped. `waited` and
// `wants` cover the speaker's first 512 threads. `disk` is that of the first of these threads in
// disk wait, else that of another process of the rank.
ProcessFacts ReadProcessFacts(pid_t worker, pid_t speaker, const TcpBytes* tcp = nullptr);
inline ProcessFacts ReadProcessFacts(pid_t pid) { return ReadProcessFacts(pid, pid); }

// The facts of a process that SIGKILL has not ended: `state` and `waits_for` of a thread that keeps
// it alive, not always the first thread. Other facts are not set.
ProcessFacts ReadStuckProcess(pid_t pid);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_PROCESS_FACTS_H_
