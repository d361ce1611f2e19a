// A process that was started ahead of time, or has left its generation, and becomes a worker when
// its agent needs one.
#ifndef DDPRUN_WORKER_SRC_AGENT_STANDBY_H_
#define DDPRUN_WORKER_SRC_AGENT_STANDBY_H_

#include <string>

#include "worker/src/agent/control_client.h"

namespace ddp::internal {

// Whether this process is a warm standby (DDPRUN_STANDBY=1) and has no place in the job yet.
bool IsStandby();

// Says STANDBY=waiting and waits for GO=1, however long that takes. Then this process is a worker:
// its environment is the one that came with GO, the one before is gone, and stdout and stderr are
// the worker's log files. What was printed before, also what is in the buffers of stdio and of
// iostreams, stays in the standby's own.
//
// Ends the process (exit code 0) when the agent goes away meanwhile: there is nobody to work for.
// Throws std::runtime_error when there is no agent at all, or its GO is not what it must be.
//
// To be called while no other thread writes to stdout or stderr, or changes the environment.
// Another thread that reads the environment gets old or new values.
void WaitAsStandby(ControlClient* client);

// The same for a worker that has left its generation, on the thread that trains. The environment
// stays; what GO=1 brings is what LaunchVariable() says from now on.
void WaitAsSurvivor(ControlClient* client);

// The environment becomes `entries`: NAME=value, each with a NUL behind it.
void ReplaceEnvironment(const std::string& entries);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_STANDBY_H_
