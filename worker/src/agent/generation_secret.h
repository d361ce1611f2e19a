// The secret of this generation. Only the rendezvous, the agents and the workers of the generation
// know it. A worker gets it from its agent on the control socket. The library uses it to
// authenticate its own connections and to encrypt a restore.
#ifndef DDPRUN_WORKER_SRC_AGENT_GENERATION_SECRET_H_
#define DDPRUN_WORKER_SRC_AGENT_GENERATION_SECRET_H_

#include <string>

#include "worker/src/agent/control_client.h"

namespace ddp::internal {

// The secret of this process. Empty: the job has none (--insecure, a standalone job, or no ddprun).
// Any thread, after FetchGenerationSecret().
const std::string& GenerationSecret();

// Asks the agent for the secret if DDPRUN_PEER_SECRET says that there is one. Call it once per
// generation, before the first connection to another rank. Blocks. Throws std::runtime_error if the
// agent does not answer.
void FetchGenerationSecret(ControlClient* agent);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_GENERATION_SECRET_H_
