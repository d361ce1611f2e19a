// Provides this process's stacks to an agent that may not trace it.
#ifndef DDPRUN_WORKER_SRC_AGENT_OWN_STACKS_H_
#define DDPRUN_WORKER_SRC_AGENT_OWN_STACKS_H_

namespace ddp::internal {

// Installs a handler for ddprun::kStackSignal. A thread that gets the signal copies its registers
// and its stack to a memfd, for the agent (worker/contract/own_stacks.h). Until a signal comes, the
// cost is one descriptor: the memfd is empty, and the alternate stack below is not touched.
//
// Does nothing if the program already handles or ignores that signal. The calling thread gets an
// alternate stack for signals, unless it has one. Other threads run the handler on their own
// alternate stack, or on their normal stack if they have none. Only the first call in a process has
// an effect. Any thread.
//
// The handler only makes system calls: no lock, no allocation, no unwinding. It ignores a signal
// that carries no request of the agent. It does nothing if the program has closed the memfd.
void WriteOwnStacksOnSignal();

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_OWN_STACKS_H_
