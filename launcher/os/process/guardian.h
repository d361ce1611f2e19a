// The guardian: the process between an agent and its workers. It survives a SIGKILL of the agent.
//
//     ddprun (the agent) ── socket ── guardian ──┬── worker ── its children
//                                                ├── worker
//                                                └── orphans of ended workers
//
// It starts and reaps the workers as the agent asks (guardian_protocol.h). While it serves the
// agent it never waits for a disk: each new worker finds and executes its program itself. It is a
// subreaper: a worker's daemon that has left its parent, group and session becomes a child of the
// guardian. If the agent ends without a request to end, the guardian kills all processes below
// itself. docs/internals/guardian.md describes what happens when the agent or the guardian is
// killed.
//
// If the agent does not renew its lease in time, the fence timer fires (fence_timer.h). Then the
// guardian kills the workers and all processes below them. The workers stay zombies until the agent
// asks the guardian to reap them.
//
// It is a fork of the agent, made before the agent has a second thread. It blocks all signals. Of
// the agent's descriptors it keeps only stderr, its socket and the fence timer. One thread serves
// the agent. Other threads only make children (vfork_threads.h), or write a line to stderr, because
// a disk behind stderr may not answer.
#ifndef DDPRUN_LAUNCHER_OS_PROCESS_GUARDIAN_H_
#define DDPRUN_LAUNCHER_OS_PROCESS_GUARDIAN_H_

#include <sys/types.h>

#include <functional>
#include <vector>

#include "worker/contract/unique_fd.h"

namespace ddprun {

struct GuardianOptions {
  // Called when the agent was killed and the guardian has killed all processes below itself: tells
  // the rendezvous, and removes the agent's folders. `left`: processes that could not be ended;
  // normally empty. The captured variables have their values from the guardian's start. The
  // function may start threads. It may be empty.
  std::function<void(const std::vector<pid_t>& left)> on_agent_killed;
};

// Turns this process into the guardian of its parent `agent`. The process must be a fresh fork with
// every signal blocked. `socket`: the guardian's end of the pair. `fence`: the agent's timer.
[[noreturn]] void RunGuardian(UniqueFd socket, int fence, pid_t agent,
                              const GuardianOptions& options);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_PROCESS_GUARDIAN_H_
