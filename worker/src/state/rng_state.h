// The states of all ranks' default random number generators, as text for a checkpoint.
#ifndef DDPRUN_WORKER_SRC_STATE_RNG_STATE_H_
#define DDPRUN_WORKER_SRC_STATE_RNG_STATE_H_

#include <ddp/context.h>

#include <string>

namespace ddp::internal {

// A collective; the same text on all ranks. The states of every rank's default generator for
// `device`: hex, by rank, separated by commas.
std::string GatherRngStates(const Context& ctx, c10::Device device);

// Sets this rank's default generator for `device` to its part of `states`. A rank without a part
// (the job has grown) keeps its state. Throws CheckpointError.
void RestoreRngState(const Context& ctx, c10::Device device, const std::string& states);

// The state of this process's CPU generator, as bytes. Throws CheckpointError for invalid bytes.
std::string OwnRngState();
void SetOwnRngState(const std::string& bytes);

// One rank's part of GatherRngStates(); "": none.
std::string RngStateOf(const std::string& states, int rank);
// The hex form of such bytes in that text.
std::string RngText(const std::string& bytes);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STATE_RNG_STATE_H_
