// Checks that all ranks have the same model, and gives them the same values.
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

// The defined parameters, or buffers, of `module`, in the order of registration: a module's own
// tensors come before its children's. The result shares storage with the module.
std::vector<NamedTensor> Parameters(const torch::nn::Module& module);
std::vector<NamedTensor> Buffers(const torch::nn::Module& module);

// Removes duplicates: keeps the first registration of each tensor.
std::vector<NamedTensor> Unique(std::vector<NamedTensor> tensors);

// For example "float [10, 5]".
std::string Describe(const torch::Tensor& tensor);

// A collective. Throws AgreedError on every rank if the tensors of a rank differ from rank 0's in
// number, order, name, dtype, shape, strides or requires_grad, or if a parameter is not on
// ctx.device().
void CheckSameModel(const Context& ctx, const std::vector<NamedTensor>& parameters,
                    const std::vector<NamedTensor>& buffers);

// Copies the values of rank `root` into `tensors` on every rank, many tensors in one message. A
// collective; number, dtypes and shapes must be the same on all ranks. The tensors may be on any
// device that the process can copy from.
void BroadcastFrom(int root, const Context& ctx, const std::vector<torch::Tensor>& tensors);

// Like BroadcastFrom, for small tensors in each step. All tensors travel as bytes in one message,
// whatever their dtypes. The reason: each message makes every rank switch threads several times,
// and that takes longer than to send the bytes of BatchNorm's statistics.
//
// One thread only.
class PackedBroadcast {
 public:
  void From(int root, const Context& ctx, const std::vector<torch::Tensor>& tensors);

 private:
  torch::Tensor wire_;  // bytes on ctx.device(); kept between calls
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_DATA_PARALLEL_MODEL_SYNC_H_
