// Are the ranks' models alike, and making them equal.
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

// The parameters, or buffers, of `module` that are defined, in the module's order, which is the
// same on all ranks: a module's own before its children's. They share storage with the module.
std::vector<NamedTensor> Parameters(const torch::nn::Module& module);
std::vector<NamedTensor> Buffers(const torch::nn::Module& module);

// Each tensor once: of those that are registered more than once, the first.
std::vector<NamedTensor> Unique(std::vector<NamedTensor> tensors);

// "float [10, 5]"
std::string Describe(const torch::Tensor& tensor);

// Throws AgreedError on every rank if number, names, dtypes, shapes or strides differ from rank
// 0's, or if a parameter is not on ctx.device(). A collective.
void CheckSameModel(const Context& ctx, const std::vector<NamedTensor>& parameters,
                    const std::vector<NamedTensor>& buffers);

// Gives `tensors` on every rank the values of rank `root`, in place, many in one message. A
// collective; the tensors must be alike on all ranks. They may be anywhere the process can copy
// from.
void BroadcastFrom(int root, const Context& ctx, const std::vector<torch::Tensor>& tensors);

// The same for small tensors, in each step: they travel as bytes in one message, whatever their
// dtypes. A message makes each rank change threads several times, which takes longer than the bytes
// of BatchNorm's statistics do.
//
// One thread.
class PackedBroadcast {
 public:
  void From(int root, const Context& ctx, const std::vector<torch::Tensor>& tensors);

 private:
  torch::Tensor wire_;  // bytes, on ctx.device(); kept from call to call
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_DATA_PARALLEL_MODEL_SYNC_H_
