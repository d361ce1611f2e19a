// Provides this process's stacks to an agent that may not trace it.
#ifndef DDPRUN_WORKER_SRC_AGENT_OWN_STACKS_H_
#define DDPRUN_WORKER_SRC_AGENT_OWN_STACKS_H_

namespace ddp::internal {

// From now on a thread that gets ddprun::kStackSignal copies its registers and its stack to a
// memfd, for the agent (worker/contract/own_stacks.h). While no signal comes, this costs one
// descriptor: the memfd is empty, and the alternate stack below is not touched.
//
// Changes nothing where the program handles or ignores that signal already. The calling thread gets
// an alternate stack for signals, unless it has one. The other threads run the handler on theirs,
// or on their own stack. Once in a process; later calls do nothing. Any thread.
//
// The handler makes system calls and nothing else: no lock, no allocation, no unwinding. It ignores
// a signal that is not a reader's, and does nothing where the program has closed the memfd.
void WriteOwnStacksOnSignal();

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_OWN_STACKS_H_
