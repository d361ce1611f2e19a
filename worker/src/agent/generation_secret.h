// The secret that the workers of this generation share, and nobody else has: the agent hands it
// over on the control socket. With it the library's own connections between ranks are
// authenticated, and what a restore sends is encrypted.
#ifndef DDPRUN_WORKER_SRC_AGENT_GENERATION_SECRET_H_
#define DDPRUN_WORKER_SRC_AGENT_GENERATION_SECRET_H_

#include <string>

#include "worker/src/agent/control_client.h"

namespace ddp::internal {

// Of this process; empty: the job has none (--insecure, one host, no ddprun). Any thread, after
// FetchGenerationSecret().
const std::string& GenerationSecret();

// Asks the agent, where DDPRUN_PEER_SECRET says that there is one. Once per generation, before the
// first connection to another rank; blocks. Throws std::runtime_error where the agent does not
// answer.
void FetchGenerationSecret(ControlClient* agent);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_GENERATION_SECRET_H_
