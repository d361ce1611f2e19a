// The guardian: the process between an agent and its workers, which outlives the agent's SIGKILL.
//
//     ddprun (the agent) ── socket ── guardian ──┬── worker ── its children
//                                                ├── worker
//                                                └── what ended workers left behind
//
// It starts the workers and collects how they ended, as the agent asks (guardian_protocol.h). It
// waits for no disk: what a new worker needs of one is that worker's own business. It is
// a subreaper: a worker's daemon that has left its parent, its group and its session becomes its
// child. When the agent is gone without a word it kills everything below it.
// docs/internals/guardian.md says what happens when which of the two is killed.
//
// When the fence that the agent has set is reached it kills the workers and everything below them,
// and leaves it to the agent to collect how they ended: fence_timer.h.
//
// It is a fork of the agent, made before the agent has a second thread: no signal that can be
// caught reaches it, and of the agent's descriptors it keeps stderr and its socket. One thread
// serves the agent; the others only make children (vfork_threads.h) or write a line to stderr,
// which may be on a disk that hangs.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_GUARDIAN_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_GUARDIAN_H_

#include <sys/types.h>

#include <functional>
#include <vector>

#include "worker/contract/unique_fd.h"

namespace ddprun {

struct GuardianOptions {
  // Called in the guardian, last, when the agent was killed: removes the agent's folders, tells
  // others. `left` are processes that could not be ended, empty in all but strange cases. What it
  // captures is as it was when the guardian was started. It may start threads. May be empty.
  std::function<void(const std::vector<pid_t>& left)> on_agent_killed;
};

// Turns this process, a fresh fork with every signal blocked, into the guardian of its parent
// `agent`. `socket` is its end of the pair, `fence` the agent's timer.
[[noreturn]] void RunGuardian(UniqueFd socket, int fence, pid_t agent,
                              const GuardianOptions& options);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_GUARDIAN_H_
