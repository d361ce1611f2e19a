// Checks that the ranks' models are alike, and makes them equal.
#ifndef DDPRUN_WORKER_SRC_DATA_PARALLEL_MODEL_SYNC_H_
#define DDPRUN_WORKER_SRC_DATA_PARALLEL_MODEL_SYNC_H_

#include <ddp/context.h>
#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace ddp::internal {

struct NamedTensor {
  std::string name;
  torch::Tensor tensor;
  bool sparse_gradient = false;  // the weight of an embedding with sparse(true)
};

// The defined parameters, or buffers, of `module`. Their order is the same on all ranks: the
// module's own before its children's. They share storage with the module.
std::vector<NamedTensor> Parameters(const torch::nn::Module& module);
std::vector<NamedTensor> Buffers(const torch::nn::Module& module);

// Keeps the first registration of each tensor.
std::vector<NamedTensor> Unique(std::vector<NamedTensor> tensors);

// "float [10, 5]"
std::string Describe(const torch::Tensor& tensor);

// A collective. Throws AgreedError on every rank if number, names, dtypes, shapes or strides differ
// from rank 0's, or if a parameter is not on ctx.device().
void CheckSameModel(const Context& ctx, const std::vector<NamedTensor>& parameters,
                    const std::vector<NamedTensor>& buffers);

// Copies rank `root`'s values into `tensors` on every rank, many tensors in one message. A
// collective; the tensors must be alike on all ranks. They may be on any device that the process
// can copy from.
void BroadcastFrom(int root, const Context& ctx, const std::vector<torch::Tensor>& tensors);

// BroadcastFrom for small tensors in each step. All tensors travel as bytes in one message,
// whatever their dtypes: each message makes every rank switch threads several times, which takes
// longer than the bytes of BatchNorm's statistics.
//
// One thread.
class PackedBroadcast {
 public:
  void From(int root, const Context& ctx, const std::vector<torch::Tensor>& tensors);

 private:
  torch::Tensor wire_;  // bytes on ctx.device(); kept between calls
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_DATA_PARALLEL_MODEL_SYNC_H_
