#include <ddp/comm_hooks.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <vector>

#include "worker/src/compat/compat.h"

namespace ddp {
namespace {

using c10::ivalue::Future;
using FuturePtr = c10::intrusive_ptr<Future>;

// Divides before it adds, so that the sum does not exceed the largest value of the dtype.
FuturePtr MeanAs(torch::ScalarType dtype, const Context& ctx, const torch::Tensor& buffer) {
  std::vector<torch::Tensor> wire = {buffer.to(dtype).div_(ctx.world_size())};
  return ctx.process_group()->allreduce(wire)->getFuture()->then(
      [buffer](Future& sum) -> c10::IValue {
        const c10::IValue value = sum.value();
        torch::Tensor to = buffer;
        return to.copy_(value.isTensor() ? value.toTensor() : value.toTensorVector()[0]);
      },
      c10::TensorType::get());
}

// Each rank gets one share of the bucket from all ranks, and sends the mean of this share to all
// ranks. This takes as many messages as an all-reduce. The messages are bytes, because Gloo may not
// support the dtype.
void MeanByShares(torch::ScalarType dtype, const Context& ctx, const torch::Tensor& buffer) {
  const std::int64_t ranks = ctx.world_size();
  const std::int64_t share = (buffer.numel() + ranks - 1) / ranks;
  torch::Tensor mine = torch::zeros({ranks, share}, buffer.options().dtype(dtype));
  const torch::Tensor used = mine.view({-1}).narrow(0, 0, buffer.numel());
  used.copy_(buffer);
  torch::Tensor of_all = torch::empty_like(mine);
  torch::Tensor sent = mine.view(torch::kUInt8);
  torch::Tensor received = of_all.view(torch::kUInt8);
  std::vector<std::int64_t> equal_parts;
  ctx.process_group()->alltoall_base(received, sent, equal_parts, equal_parts)->wait();

  std::vector<torch::Tensor> mean = {
      of_all.to(buffer.scalar_type()).sum(0).div_(ranks).to(dtype).view(torch::kUInt8)};
  std::vector<std::vector<torch::Tensor>> means = {sent.unbind(0)};
  ctx.process_group()->allgather(means, mean)->wait();
  torch::Tensor(buffer).copy_(used);
}

}  // namespace

FuturePtr finished(const torch::Tensor& result) {
  std::vector<c10::Device> devices;
  if (!result.is_cpu()) devices.push_back(result.device());
  const auto future = c10::make_intrusive<Future>(c10::TensorType::get(), devices);
  future->markCompleted(result);
  return future;
}

CommHook fp16_compress(const Context& ctx) {
  return [&ctx](c10d::GradBucket& bucket) {
    const torch::Tensor& buffer = bucket.getBuffer();
    if (ctx.backend() != "gloo" || compat::kGlooAddsHalf) {
      return MeanAs(torch::kFloat16, ctx, buffer);
    }
    MeanByShares(torch::kFloat16, ctx, buffer);
    return finished(buffer);
  };
}

CommHook bf16_compress(const Context& ctx) {
  return [&ctx](c10d::GradBucket& bucket) {
    const torch::Tensor& buffer = bucket.getBuffer();
    if (ctx.backend() != "gloo") return MeanAs(torch::kBFloat16, ctx, buffer);  // NCCL can add bf16
    MeanByShares(torch::kBFloat16, ctx, buffer);
    return finished(buffer);
  };
}

}  // namespace ddp
