// Communication hooks replace the all-reduce of a gradient bucket, like register_comm_hook() of
// torch.nn.parallel.DistributedDataParallel. Use them if the ranks compute faster than the network
// can carry their gradients.
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

// A function that turns the gradients of this rank into the gradients that all ranks get.
//
// `bucket.getBuffer()` is a tensor of one dimension. It has this rank's gradients of some
// parameters. The hook may overwrite it. backward() calls the hook for one bucket after another (on
// a GPU: on a thread of autograd), in the same order on all ranks, so the hook may begin
// collectives. In join(), a rank without inputs calls the hook too, with gradients of zeros.
//
// The future's value must be a tensor of the buffer's shape, dtype and device (it may be the buffer
// itself), or a list of one such tensor. The value is used unchanged: a hook that wants the mean
// must divide. If the hook throws, or its future has an error, backward() throws that exception.
using CommHook = std::function<c10::intrusive_ptr<c10::ivalue::Future>(c10d::GradBucket& bucket)>;

// Returns a completed future. For a hook that already has its result.
c10::intrusive_ptr<c10::ivalue::Future> finished(const torch::Tensor& result);

// Averages gradients and sends them as float16, which halves the bytes. The sum is also computed in
// float16. So gradients above 65504, or far below 1e-5, need a scaled loss. Semantics of
// torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook. Newer versions of
// libtorch may be built with a Gloo that cannot add float16 (Debian's 2.14), and then PyTorch's
// hook fails. So with Gloo in such a version, this hook sums the float16 gradients in float32, like
// bf16_compress.
CommHook fp16_compress(const Context& ctx);

// Averages gradients and sends them as bfloat16, which halves the bytes and keeps the range of
// float32. With NCCL the sum is computed in bfloat16, like in PyTorch's bf16_compress_hook. Gloo
// cannot do that: there each rank sums its share of the gradients in float32, in the order of
// ranks. The result is equal on all ranks. Its error is at most 2^-7 of the mean of the absolute
// values (two roundings of 2^-8 each). With Gloo, backward() waits for each bucket, so
// communication does not overlap with backward().
CommHook bf16_compress(const Context& ctx);

// Names, defaults and meanings are those of PyTorch's PowerSGDState.
struct PowerSgdOptions {
  // The rank r of the approximation. An n x m gradient is sent as r columns of n values and r
  // columns of m values.
  int matrix_approximation_rank = 1;

  // The number of steps at the start in which gradients are averaged without compression. Must be
  // at least 2 with error feedback or warm start, because the buckets are rebuilt after the first
  // step.
  std::int64_t start_power_sgd_iter = 1000;

  // A gradient is compressed only if it has more than min_compression_rate times as many values as
  // its compressed form. With 1 or more, vectors are never compressed.
  double min_compression_rate = 2;

  // Adds the error of one step to the gradients of the next step. Without this most models do not
  // converge.
  bool use_error_feedback = true;

  // Begins each step with the approximation of the previous step instead of a random one.
  bool warm_start = true;

  // With one or two columns, this number is added to the norm of each column before the column is
  // divided by its norm. With 0, a gradient of zeros becomes NaN. With more columns it has no
  // effect: a QR decomposition is used.
  double orthogonalization_epsilon = 0;

  std::uint32_t random_seed = 0;
};

// Approximates the mean by matrices of low rank (Vogels et al., PowerSGD, NeurIPS 2019). Semantics
// of torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook. With the same libtorch the result
// is equal to PyTorch's to the last bit. In steps with compression, backward() waits for each
// bucket. A checkpoint does not contain the errors, the last approximations or the number of steps.
// So a resumed training begins again with start_power_sgd_iter uncompressed steps.
//
// Throws ConfigError for options that are out of range or contradict each other.
CommHook power_sgd(const Context& ctx, const PowerSgdOptions& options = PowerSgdOptions());

}  // namespace ddp

#endif  // DDP_COMM_HOOKS_H_
