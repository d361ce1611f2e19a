// Functions that check that the replicas of a model are equal. DistributedDataParallel keeps them
// equal, bit by bit. They become different through a bug (an optimizer step on one rank only, a
// parameter changed outside of the optimizer) or through broken hardware. Nothing else detects it.
#ifndef DDP_VERIFY_H_
#define DDP_VERIFY_H_

#include <ddp/context.h>
#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace ddp {

struct VerifyOptions {
  // true: buffers are compared too. BatchNorm's statistics differ between ranks after a step, by
  // design. sync_buffers() of DistributedDataParallel, or the next forward, makes them equal again.
  bool buffers = false;
};

// A tensor whose name, dtype, shape or bytes differ between ranks.
struct ReplicaDifference {
  std::string name;            // on this rank, for example "parameter 'layer.weight'"
  std::vector<int> ranks;      // the ranks that differ, ascending
  bool from_majority = false;  // true: `ranks` differ from the majority; false: from rank 0
};

// Returns all differences, in the order of the module's tensors. Each rank finds the same ones.
// A collective; call it between steps. Each rank hashes the name, dtype, shape and bytes of each
// tensor (XXH3-64). A CUDA tensor is first copied to the host. Then all ranks gather the hashes, 8
// bytes for each tensor and rank.
//
// It costs about as much as reading the parameters once: docs/internals/benchmarks.md has figures.
//
// Throws AgreedError if the ranks' modules do not have the same number of tensors.
std::vector<ReplicaDifference> find_replica_differences(
    const Context& ctx, const torch::nn::Module& module,
    const VerifyOptions& options = VerifyOptions());

// Does the same as find_replica_differences(), but throws AgreedError on every rank if there is a
// difference. AgreedError::failing_rank() is the lowest rank that differs. The text names tensors
// and ranks:
//   the replicas differ: parameter 'layer.weight' on rank 2 differs from the majority
void verify_replicas(const Context& ctx, const torch::nn::Module& module,
                     const VerifyOptions& options = VerifyOptions());

}  // namespace ddp

#endif  // DDP_VERIFY_H_
