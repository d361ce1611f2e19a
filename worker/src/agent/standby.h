// A standby: a process that waits to become a worker when its agent needs one. It was started ahead
// of time, or it has left its generation.
#ifndef DDPRUN_WORKER_SRC_AGENT_STANDBY_H_
#define DDPRUN_WORKER_SRC_AGENT_STANDBY_H_

#include <string>

#include "worker/src/agent/control_client.h"

namespace ddp::internal {

// True if this process is a warm standby (DDPRUN_STANDBY=1) and has no place in the job yet.
bool IsStandby();

// Sends STANDBY=waiting and waits for GO=1 without limit. Then this process is a worker: the
// environment that came with GO=1 replaces its own, and stdout and stderr are the worker's log
// files. Earlier output stays in the standby's files, including the buffers of stdio and iostreams.
//
// Ends the process with exit code 0 if the agent goes away meanwhile. Throws std::runtime_error if
// there is no agent, or if this process cannot take over what comes with GO=1.
//
// Meanwhile no other thread may write to stdout or stderr, or change the environment. A thread that
// reads the environment gets old or new values.
void WaitAsStandby(ControlClient* client);

// Like WaitAsStandby, for a worker that has left its generation. Called on the training thread. The
// environment of the process does not change; LaunchVariable() returns the values of GO=1 from now
// on.
void WaitAsSurvivor(ControlClient* client);

// Replaces the environment. `entries` is a list of NAME=value, each followed by a NUL.
void ReplaceEnvironment(const std::string& entries);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_STANDBY_H_
