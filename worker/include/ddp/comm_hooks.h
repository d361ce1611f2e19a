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

// Turns the gradients of this rank into the gradients that all ranks get.
//
// `bucket`: its getBuffer() has this rank's gradients of some parameters, in one dimension; the
// hook may overwrite that memory. The thread of backward() calls the hook for one bucket after the
// other, in the same order on all ranks, so the hook may begin collectives.
//
// The future's value is a tensor of the buffer's shape, dtype and device (the buffer itself is
// allowed), or a list of one such tensor. It is used unchanged: a hook that wants the mean must
// divide. backward() throws an exception of the hook or of its future.
using CommHook = std::function<c10::intrusive_ptr<c10::ivalue::Future>(c10d::GradBucket& bucket)>;

// A completed future, for a hook that has waited for its result.
c10::intrusive_ptr<c10::ivalue::Future> finished(const torch::Tensor& result);

// Averages gradients and sends them as float16: half the bytes. The sum is also made in float16:
// gradients above 65504, or far below 1e-5, need a scaled loss. Semantics of
// torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook.
CommHook fp16_compress(const Context& ctx);

// Averages gradients and sends them as bfloat16: half the bytes, and the range of float32. With
// NCCL the sum is made in bfloat16, like PyTorch's bf16_compress_hook. Gloo cannot do that: each
// rank sums its share in float32, rank by rank. The result is the same on all ranks, and within
// 2^-7 of the mean of the absolute values (two roundings of 2^-8 each). With Gloo, backward() waits
// for each bucket, so no communication is hidden.
CommHook bf16_compress(const Context& ctx);

// Names, defaults and meanings are those of PowerSGDState in PyTorch.
struct PowerSgdOptions {
  // The rank r of the approximation: an n x m gradient is sent as r columns of n and r columns of m
  // values.
  int matrix_approximation_rank = 1;

  // The number of steps averaged without compression at the start. At least 2 with error feedback
  // or warm start, because the buckets are rebuilt after the first step.
  std::int64_t start_power_sgd_iter = 1000;

  // A gradient is compressed only if it becomes at least this many times smaller. Vectors are never
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

// Approximates the mean by matrices of low rank (Vogels et al., PowerSGD, NeurIPS 2019). Semantics
// of torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook, and equal to it to the last bit
// with the same libtorch. backward() waits for each bucket. Errors and last approximations are not
// part of a checkpoint: a resumed training begins without them.
//
// Throws ConfigError for options that contradict each other.
CommHook power_sgd(const Context& ctx, const PowerSgdOptions& options = PowerSgdOptions());

}  // namespace ddp

#endif  // DDP_COMM_HOOKS_H_
