// Checks that the replicas of a model are equal. DistributedDataParallel keeps them equal bit by
// bit. A bug (an optimizer step on one rank only, a parameter changed outside of backward()) or
// broken hardware makes them differ, and nothing else detects it.
#ifndef DDP_VERIFY_H_
#define DDP_VERIFY_H_

#include <ddp/context.h>
#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace ddp {

struct VerifyOptions {
  // Also compares buffers. BatchNorm's statistics differ by design until DistributedDataParallel's
  // sync_buffers(), or the next forward, makes them equal.
  bool buffers = false;
};

// A tensor whose bits, shape or dtype differ between ranks.
struct ReplicaDifference {
  std::string name;            // "parameter 'layer.weight'" or "buffer 'norm.running_mean'"
  std::vector<int> ranks;      // the ranks that differ, ascending
  bool from_majority = false;  // `ranks` differ from the majority; else from rank 0
};

// Returns all differences, in the module's order; equal on every rank. A collective: each rank
// hashes each tensor's bytes (XXH3-64; a CUDA tensor is first copied to the host), and all ranks
// gather the hashes, 8 bytes per tensor and rank. Call it between steps.
//
// Costs about one read of the parameters: docs/internals/benchmarks.md has figures.
//
// Throws AgreedError if the ranks' modules do not have the same number of tensors.
std::vector<ReplicaDifference> find_replica_differences(
    const Context& ctx, const torch::nn::Module& module,
    const VerifyOptions& options = VerifyOptions());

// find_replica_differences() as an error: returns if there is no difference, else throws
// AgreedError on every rank. failing_rank() is the lowest rank that differs, and the text names
// tensors and ranks:
//   the replicas differ: parameter 'layer.weight' on rank 2 differs from the majority
void verify_replicas(const Context& ctx, const torch::nn::Module& module,
                     const VerifyOptions& options = VerifyOptions());

}  // namespace ddp

#endif  // DDP_VERIFY_H_
