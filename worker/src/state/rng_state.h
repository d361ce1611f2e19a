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

// This process's CPU generator, as bytes. Throw CheckpointError for what is none.
std::string OwnRngState();
void SetOwnRngState(const std::string& bytes);

// One rank's part of what GatherRngStates() gives; "": there is none.
std::string RngStateOf(const std::string& states, int rank);
// How that text writes such bytes.
std::string RngText(const std::string& bytes);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STATE_RNG_STATE_H_
