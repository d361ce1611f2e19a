// The secret of this generation, shared by its workers only; the agent sends it over the control
// socket. It authenticates the library's own connections, and encrypts a restore.
#ifndef DDPRUN_WORKER_SRC_AGENT_GENERATION_SECRET_H_
#define DDPRUN_WORKER_SRC_AGENT_GENERATION_SECRET_H_

#include <string>

#include "worker/src/agent/control_client.h"

namespace ddp::internal {

// The secret of this process; empty: the job has none (--insecure, one host, no ddprun). Any
// thread, after FetchGenerationSecret().
const std::string& GenerationSecret();

// Asks the agent, if DDPRUN_PEER_SECRET says that there is a secret. Once per generation, before
// the first connection to another rank; blocks. Throws std::runtime_error if the agent does not
// answer.
void FetchGenerationSecret(ControlClient* agent);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_GENERATION_SECRET_H_
