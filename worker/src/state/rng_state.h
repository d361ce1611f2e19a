// The default random number generators of all ranks, as text for a checkpoint.
#ifndef DDPRUN_WORKER_SRC_STATE_RNG_STATE_H_
#define DDPRUN_WORKER_SRC_STATE_RNG_STATE_H_

#include <ddp/context.h>

#include <string>

namespace ddp::internal {

// The state of the default generator for `device` of every rank, in hex, by rank, separated by
// commas. A collective; same text on all ranks.
std::string GatherRngStates(const Context& ctx, c10::Device device);

// Sets this rank's default generator for `device` to its part of `states`. A rank that `states`
// does not know (the job has grown) keeps the state it has. Throws CheckpointError.
void RestoreRngState(const Context& ctx, c10::Device device, const std::string& states);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STATE_RNG_STATE_H_
