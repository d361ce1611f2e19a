// SyncBatchNorm is batch normalization over the batches of all ranks. Use it if the batch of one
// rank is small. Semantics of torch.nn.SyncBatchNorm of PyTorch 1.13 (torch/nn/modules/batchnorm.py
// and _functions.py).
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
// Python's class needs CUDA. This class also runs on the CPU with Gloo.
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

// Parameters, buffers, options and defaults are those of torch::nn::BatchNorm1d, 2d and 3d, and the
// state_dicts of all four can be exchanged. The input has the shape [batch, num_features, ...] (two
// or more dimensions) and the dtype float, double, half or bfloat16. For half and bfloat16 the
// statistics are computed in float. num_features must be equal on all ranks. Batches may have
// different sizes, also 0.
//
// In training mode, in a job of two or more ranks, forward() and backward() are collectives:
//   forward    gathers each rank's mean, variance and count (2 * num_features + 1 doubles), and
//              normalizes with the mean and variance of all ranks' values
//   backward   sums two values for each feature over the ranks, if the input needs a gradient.
//              The gradients of weight and bias are this rank's own part, which
//              DistributedDataParallel averages with all others
// So all ranks must reach the same layers in the same order, and a layer's input must need a
// gradient on all ranks or on none. With find_unused_parameters all ranks must also use the same
// parameters: the collectives of this layer and those of the gradients share one process group, in
// which all ranks must call them in the same order.
//
// Running statistics are equal on all ranks, bit for bit. The running variance is the unbiased
// variance over all ranks. It moves by momentum; without momentum it is the average over all
// batches. If all batches are empty, the statistics do not change. If all ranks together have only
// one value per feature, its variance is 0 (in PyTorch 1.13 the running variance becomes NaN).
// Ranks exchange variances here. PyTorch sends 1 / sqrt(variance + eps) instead and computes the
// variance from it. The formulas are equal, but sending variances loses fewer digits.
//
// In evaluation mode, with one rank, or without a Context, the result is that of plain batch
// normalization, to the last bit.
//
// Only one thread at a time may use the object. forward() throws ConfigError for an input of
// another shape. forward() and backward() throw CollectiveError if another rank is gone. If
// forward() was a collective, backward() with create_graph throws ddp::Error, because a gradient of
// the gradient would need another collective.
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

  // From now on this module normalizes over all ranks of `ctx`. `ctx` must outlive this module and
  // every backward() from its results. Not a collective.
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
// of `ctx`. Also gives `ctx` to each SyncBatchNorm without a Context. Parameters stay the same
// tensors, buffers share their memory, and names and order do not change. So state_dicts,
// optimizers and checkpoints stay valid. A module that is registered several times gets one
// replacement. Returns `module`; or its replacement, if `module` is a batch normalization itself.
// Like Python's torch.nn.SyncBatchNorm.convert_sync_batchnorm. Call it on all ranks, before the
// first forward(). The module may be on its device already or be moved there later. Not a
// collective.
//
// What cannot be replaced. In C++, forward() is not in a base class. So a module can be replaced
// only if its owner calls it without knowledge of its type. That is so in a torch::nn::Sequential
// or a class derived from it, at any depth, also if the Sequential is a member. Any other owner
// would continue to call the old module: a member such as `torch::nn::BatchNorm2d norm`, an item of
// a ModuleList or ModuleDict, a member AnyModule. For such modules the function throws ConfigError,
// which names all of them, and changes nothing. Declare them as `ddp::SyncBatchNorm`, or put them
// into a Sequential. One case is not detected: the program has a second handle to a BatchNorm of a
// Sequential, and calls it directly.
//
// `ctx` must outlive the modules and every backward() from their results.
std::shared_ptr<torch::nn::Module> convert_sync_batchnorm(
    const Context& ctx, const std::shared_ptr<torch::nn::Module>& module);

}  // namespace ddp

#endif  // DDP_SYNC_BATCH_NORM_H_
