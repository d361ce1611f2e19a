// Batch normalization over the batches of all ranks, for small batches per rank. Semantics of
// torch.nn.SyncBatchNorm of PyTorch 1.13 (torch/nn/modules/batchnorm.py and _functions.py).
//
//   auto net = torch::nn::Sequential(torch::nn::Conv2d(3, 16, 3), torch::nn::BatchNorm2d(16), ...);
//   ddp::convert_sync_batchnorm(ctx, net.ptr());
//
//   struct Net : torch::nn::Module {
//     ddp::SyncBatchNorm norm{16};   // plain batch normalization until it is given a Context
//     Net() { register_module("norm", norm); }
//   };
//   auto net = std::make_shared<Net>();
//   ddp::convert_sync_batchnorm(ctx, net);
//   ddp::DistributedDataParallel<Net> model(ctx, net);
//
// Python's class needs CUDA; this one runs on the CPU with Gloo as well.
#ifndef DDP_SYNC_BATCH_NORM_H_
#define DDP_SYNC_BATCH_NORM_H_

#include <ddp/context.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/options/batchnorm.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>

namespace ddp {

// Parameters, buffers, options and their defaults are those of torch::nn::BatchNorm1d, 2d and 3d:
// the state_dicts of all four are interchangeable. Input: [batch, num_features, ...] of two or more
// dimensions, float or double, or half or bfloat16, whose statistics are computed in float. Only
// num_features must be equal on all ranks: batches may have different sizes, also 0.
//
// While training, in a job of two and more ranks, forward() and backward() are collectives:
//   forward    gathers each rank's mean, variance and count (2 * num_features + 1 doubles), and
//              normalizes with the mean and variance of all ranks' values
//   backward   sums two values for each feature over the ranks, if the input needs a gradient.
//              The gradients of weight and bias are this rank's own part, which
//              DistributedDataParallel averages with all others
// So all ranks must reach the same layers in the same order, and must agree on whether a layer's
// input needs a gradient. With find_unused_parameters they must also use the same parameters: this
// layer's collectives and those of the gradients share one process group, whose order is fixed.
//
// Running statistics are equal on all ranks, bit for bit. The running variance is the unbiased
// variance over all ranks. It moves by momentum; without momentum it is the average over all
// batches. If all batches are empty, the statistics do not change. If all ranks together have only
// one value per feature, its variance is 0 (PyTorch 1.13 makes the running variance NaN). The ranks
// exchange variances, while PyTorch sends 1 / sqrt(variance + eps) and computes the variance back:
// the formulas are equal, and fewer digits are lost here.
//
// In evaluation mode, with one rank, or without a Context it is plain batch normalization, to the
// last bit.
//
// One thread at a time. Throws CollectiveError if a peer is gone. Throws ddp::Error for a gradient
// of the gradient (create_graph) that would need another collective.
class SyncBatchNormImpl
    : public torch::nn::NormImplBase<1, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  explicit SyncBatchNormImpl(std::int64_t num_features);
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& options);
  // `ctx` must outlive this module and every backward() from its results.
  SyncBatchNormImpl(const Context& ctx, const torch::nn::BatchNormOptions& options);

  // Takes the parameters of `plain`, shares the memory of its buffers, and copies its training
  // flag.
  template <std::size_t D, typename Derived>
  SyncBatchNormImpl(const Context& ctx,
                    const torch::nn::NormImplBase<D, Derived, torch::nn::BatchNormOptions>& plain)
      : SyncBatchNormImpl(ctx, plain.options) {
    if (options.affine()) {
      weight = parameters_["weight"] = plain.weight;
      bias = parameters_["bias"] = plain.bias;
    }
    if (options.track_running_stats()) {
      running_mean.set_data(plain.running_mean);
      running_var.set_data(plain.running_var);
      num_batches_tracked.set_data(plain.num_batches_tracked);
    }
    train(plain.is_training());
  }

  torch::Tensor forward(const torch::Tensor& input);

  // From now on normalizes over all ranks of `ctx`, which must outlive this module and its results.
  // Not a collective.
  void synchronize(const Context& ctx) { ctx_ = &ctx; }
  const Context* context() const { return ctx_; }  // null: plain batch normalization

  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(const torch::Tensor& input) override;  // the base class's name

 private:
  torch::Tensor ForwardAlone(const torch::Tensor& input);
  void UpdateRunningStatistics(const torch::Tensor& mean, const torch::Tensor& variance,
                               const torch::Tensor& count);

  const Context* ctx_ = nullptr;
};

// ddp::SyncBatchNorm norm(16);                                            // to be converted
// ddp::SyncBatchNorm norm(ctx, torch::nn::BatchNormOptions(16).eps(1e-3));  // or with its Context
TORCH_MODULE(SyncBatchNorm);

// Replaces every BatchNorm1d, 2d and 3d in the tree of `module` by a SyncBatchNorm over all ranks
// of `ctx`, and gives `ctx` to each SyncBatchNorm without a Context. Parameters are the same
// tensors, buffers share their memory, and names and order do not change: state_dicts, optimizers
// and checkpoints stay valid. A module registered several times is replaced by one. Returns
// `module`, or its replacement if it is a batch normalization itself. Like Python's
// torch.nn.SyncBatchNorm.convert_sync_batchnorm. Call it on all ranks, before or after the module
// is moved to its device, and before its first forward(). Not a collective.
//
// In C++ forward() is not in a base class. So a module can be replaced only if its owner calls it
// without knowing its type: in a torch::nn::Sequential, or a class derived from it, at any depth,
// also as a member. Any other owner (a member such as `torch::nn::BatchNorm2d norm`, an item of a
// ModuleList or ModuleDict, a member AnyModule) keeps calling the old module. For such modules it
// throws ConfigError, which names all of them, and changes nothing: declare them as
// `ddp::SyncBatchNorm`, or put them into a Sequential. A second handle to a BatchNorm of a
// Sequential, through which the program calls it directly, is not detected.
//
// `ctx` must outlive the modules and every backward() from their results.
std::shared_ptr<torch::nn::Module> convert_sync_batchnorm(
    const Context& ctx, const std::shared_ptr<torch::nn::Module>& module);

}  // namespace ddp

#endif  // DDP_SYNC_BATCH_NORM_H_
