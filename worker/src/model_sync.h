// Are the ranks' models alike, and making them equal.
#ifndef DDPRUN_WORKER_SRC_MODEL_SYNC_H_
#define DDPRUN_WORKER_SRC_MODEL_SYNC_H_

#include <ddp/context.h>
#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace ddp::internal {

struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
};

// The parameters, or buffers, of `module` that are defined, in the module's order, which is the
// same on all ranks. They share storage with the module.
std::vector<NamedTensor> Parameters(const torch::nn::Module& module);
std::vector<NamedTensor> Buffers(const torch::nn::Module& module);

// "float [10, 5]"
std::string Describe(const torch::Tensor& tensor);

// Throws AgreedError on every rank if number, names, dtypes or shapes differ from rank 0's.
// A collective.
void CheckSameModel(const Context& ctx, const std::vector<NamedTensor>& parameters,
                    const std::vector<NamedTensor>& buffers);

// Gives `tensors` on every rank the values of rank 0, in place, many in one message. A collective;
// the tensors must be alike on all ranks. They may be anywhere the process can copy from.
void BroadcastFromRank0(const Context& ctx, const std::vector<torch::Tensor>& tensors);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_MODEL_SYNC_H_
