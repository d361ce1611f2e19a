// Communication hooks replace the all-reduce of a gradient bucket, as register_comm_hook() of
// torch.nn.parallel.DistributedDataParallel. They are for networks that are slower than the
// computation of the ranks.
//
//   model.register_comm_hook(ddp::bf16_compress(ctx));  // before the first step
#ifndef DDP_COMM_HOOKS_H_
#define DDP_COMM_HOOKS_H_

#include <ATen/core/ivalue.h>
#include <ddp/context.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>

namespace c10d {
class GradBucket;  // include <torch/csrc/distributed/c10d/comm.hpp> to use it
}  // namespace c10d

namespace ddp {

// Turns one rank's gradients into the gradients that all ranks get.
//
// `bucket`: its getBuffer() has the gradients of some parameters, in one dimension, as this rank
// has computed them; the hook may use that memory. It is called on the thread of backward(), for
// one bucket after the other, in the same order on all ranks, so its collectives may begin there.
//
// The future's value is a tensor of the buffer's shape, dtype and device (the buffer itself is
// allowed), or a list of one such tensor. It is used as it is: a hook that wants the mean divides.
// backward() throws an exception of the hook or of its future.
using CommHook = std::function<c10::intrusive_ptr<c10::ivalue::Future>(c10d::GradBucket& bucket)>;

// A finished future, for a hook that has waited for its result.
c10::intrusive_ptr<c10::ivalue::Future> finished(const torch::Tensor& result);

// The mean of gradients that travel as float16: half the bytes. The sum is made in float16 too:
// gradients above 65504, or far below 1e-5, need a scaled loss. As
// torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook.
CommHook fp16_compress(const Context& ctx);

// The mean of gradients that travel as bfloat16: half the bytes, and the range of float32. With
// NCCL the sum is made in bfloat16, as by PyTorch's bf16_compress_hook. Gloo cannot do that: each
// rank sums its share in float32, rank by rank. The result is the same on all ranks and within 2^-7
// of the mean of the absolute values (two roundings of 2^-8 each). With Gloo, backward() waits for
// each bucket, so no communication is hidden.
CommHook bf16_compress(const Context& ctx);

// Names, defaults and meanings are those of PowerSGDState in PyTorch.
struct PowerSgdOptions {
  // The rank r of the approximation: a gradient of n x m travels as r columns of n and r of m.
  int matrix_approximation_rank = 1;

  // Steps that are averaged without compression, before the first compressed one. At least 2 with
  // error feedback or warm start, because the buckets are rebuilt after the first step.
  std::int64_t start_power_sgd_iter = 1000;

  // A gradient is compressed if it becomes at least this many times smaller. Vectors are never
  // compressed.
  double min_compression_rate = 2;

  // Adds the error of a step to the next step's gradients. Without it most models do not converge.
  bool use_error_feedback = true;

  // Starts from the last step's approximation, not from a random one.
  bool warm_start = true;

  // Added to the norm of a column, so that a column of zeros can be divided by it. With 0, a
  // gradient of zeros becomes NaN.
  double orthogonalization_epsilon = 0;

  std::uint32_t random_seed = 0;
};

// The mean, approximated by matrices of low rank (Vogels et al., PowerSGD, NeurIPS 2019), as
// torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook, and equal to it to the last bit where
// both use the same libtorch. backward() waits for each bucket. The errors and the last
// approximations are not part of a checkpoint: a training that was resumed begins with none.
//
// Throws ConfigError for options that contradict each other.
CommHook power_sgd(const Context& ctx, const PowerSgdOptions& options = PowerSgdOptions());

}  // namespace ddp

#endif  // DDP_COMM_HOOKS_H_
