// The states of all ranks' default random number generators, as text for a checkpoint.
#ifndef DDPRUN_WORKER_SRC_STATE_RNG_STATE_H_
#define DDPRUN_WORKER_SRC_STATE_RNG_STATE_H_

#include <ddp/context.h>
#include <torch/types.h>

#include <string>
#include <vector>

namespace ddp::internal {

// Returns the state of every rank's default generator for `device`: in hex, by rank, separated by
// commas. A collective; all ranks get the same text.
std::string GatherRngStates(const Context& ctx, c10::Device device);

// The same as bytes: a tensor for each rank. RngText() makes the text.
std::vector<torch::Tensor> GatherRngBytes(const Context& ctx, c10::Device device);
std::string RngText(const std::vector<torch::Tensor>& states);

// Sets this rank's default generator for `device` to this rank's part of `states`. If there is no
// such part (the job has grown), the generator does not change. Throws CheckpointError if the part
// is invalid.
void RestoreRngState(const Context& ctx, c10::Device device, const std::string& states);

// Reads or sets the state of this process's CPU generator, as bytes. The setter throws
// CheckpointError for invalid bytes.
std::string OwnRngState();
void SetOwnRngState(const std::string& bytes);

// One rank's part of such a text. "": it has no part for that rank.
std::string RngStateOf(const std::string& states, int rank);
// The bytes of a state as hex, as in that text.
std::string RngText(const std::string& bytes);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_STATE_RNG_STATE_H_
