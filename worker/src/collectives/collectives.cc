#include <ATen/core/Generator.h>
#include <ddp/collectives.h>
#include <ddp/errors.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

#include "worker/src/collectives/check_root.h"
#include "worker/src/collectives/text_tensor.h"
#include "worker/src/compat/compat.h"
#include "worker/src/group/control_device.h"
#include "worker/src/group/failure.h"

namespace ddp {
namespace {

using internal::ControlDevice;

constexpr std::chrono::milliseconds kGroupTimeout = kNoTimeout;  // means the group's timeout
constexpr std::int64_t kFirstOfText = 4096;                      // bytes

// Runs `operation(tensors)` of the process group on `tensor`, and waits for it. The data goes
// through `device`; the tensor may be on any device.
template <typename Operation>
void InPlace(const Context& ctx, const char* what, torch::Tensor& tensor, c10::Device device,
             Operation operation) {
  internal::Collective(what, ctx.rank(), ctx.world_size(), [&] {
    const torch::NoGradGuard no_grad;
    torch::Tensor wire = tensor.detach().to(device).contiguous();
    std::vector<torch::Tensor> tensors = {wire};
    operation(tensors)->wait(kGroupTimeout);
    internal::WaitForDevice(device);
    if (wire.data_ptr() != tensor.data_ptr()) tensor.detach().copy_(wire);
  });
}

// The dtype in which tensors like `tensor` are added on `device`. If there is none, throws
// ConfigError, before other ranks wait for this one.
c10::ScalarType DtypeOfSum(const char* what, const torch::Tensor& tensor, c10::Device device) {
  switch (tensor.scalar_type()) {
    case torch::kBFloat16:  // Gloo of libtorch 1.13 does not support it
      return device.is_cpu() ? torch::kFloat32 : torch::kBFloat16;
    case torch::kFloat16:
      return device.is_cpu() && !compat::kGlooAddsHalf ? torch::kFloat32 : torch::kFloat16;
    case torch::kFloat32:
    case torch::kFloat64:
    case torch::kInt8:
    case torch::kUInt8:
    case torch::kInt32:
    case torch::kInt64:
      return tensor.scalar_type();
    default:
      throw ConfigError(std::string(what) + " cannot add tensors of " +
                        std::string(tensor.dtype().name()) +
                        "; give it float, double, half, bfloat16, int8, uint8, int32 or int64");
  }
}

void Sum(const Context& ctx, const char* what, torch::Tensor& tensor, c10::Device device) {
  const c10::ScalarType dtype = DtypeOfSum(what, tensor, device);
  torch::Tensor sum = tensor.detach().to(dtype);
  InPlace(ctx, what, sum, device, [&](std::vector<torch::Tensor>& tensors) {
    return ctx.process_group()->allreduce(tensors);
  });
  if (dtype != tensor.scalar_type()) tensor.detach().copy_(sum);
}

void CheckMean(const char* what, const torch::Tensor& tensor) {
  if (tensor.is_floating_point()) return;
  throw ConfigError(std::string(what) + " needs a floating-point tensor, not " +
                    std::string(tensor.dtype().name()));
}

void SumAt(const Context& ctx, const char* what, torch::Tensor& tensor, int root) {
  internal::CheckRoot(ctx, std::string(what) + " to", root);
  const c10::ScalarType dtype = DtypeOfSum(what, tensor, ctx.device());
  torch::Tensor sum;
  internal::Collective(what, ctx.rank(), ctx.world_size(), [&] {
    const torch::NoGradGuard no_grad;
    // Copy on every rank, because backends also write to the input tensors of the other ranks.
    sum = tensor.detach().to(ctx.device(), dtype).clone(at::MemoryFormat::Contiguous);
    std::vector<torch::Tensor> tensors = {sum};
    c10d::ReduceOptions options;
    options.rootRank = root;
    ctx.process_group()->reduce(tensors, options)->wait(kGroupTimeout);
    internal::WaitForDevice(ctx.device());
    if (ctx.rank() == root) tensor.detach().copy_(sum);
  });
}

}  // namespace

void internal::BroadcastBy(c10::Device device, const Context& ctx, torch::Tensor& tensor,
                           int root) {
  InPlace(ctx, "broadcast", tensor, device, [&](std::vector<torch::Tensor>& tensors) {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    // As bytes, because Gloo supports neither bool nor complex numbers.
    tensors[0] = tensors[0].view({-1}).view(torch::kUInt8);
    return ctx.process_group()->broadcast(tensors, options);
  });
}

double all_reduce_sum(const Context& ctx, double value) {
  torch::Tensor tensor = torch::full({1}, value, torch::kFloat64);
  Sum(ctx, "all_reduce_sum", tensor, ControlDevice(ctx));
  return tensor.item<double>();
}

std::int64_t all_reduce_sum(const Context& ctx, std::int64_t value) {
  torch::Tensor tensor = torch::full({1}, value, torch::kInt64);
  Sum(ctx, "all_reduce_sum", tensor, ControlDevice(ctx));
  return tensor.item<std::int64_t>();
}

double all_reduce_mean(const Context& ctx, double value) {
  return all_reduce_sum(ctx, value) / ctx.world_size();
}

void all_reduce_sum(const Context& ctx, torch::Tensor& tensor) {
  Sum(ctx, "all_reduce_sum", tensor, ctx.device());
}

void all_reduce_mean(const Context& ctx, torch::Tensor& tensor) {
  CheckMean("all_reduce_mean", tensor);
  Sum(ctx, "all_reduce_mean", tensor, ctx.device());
  const torch::NoGradGuard no_grad;
  tensor.div_(ctx.world_size());
}

void reduce_sum(const Context& ctx, torch::Tensor& tensor, int root) {
  SumAt(ctx, "reduce_sum", tensor, root);
}

void reduce_mean(const Context& ctx, torch::Tensor& tensor, int root) {
  CheckMean("reduce_mean", tensor);
  SumAt(ctx, "reduce_mean", tensor, root);
  const torch::NoGradGuard no_grad;
  if (ctx.rank() == root) tensor.div_(ctx.world_size());
}

void broadcast(const Context& ctx, torch::Tensor& tensor, int root) {
  internal::CheckRoot(ctx, "broadcast from", root);
  internal::BroadcastBy(ctx.device(), ctx, tensor, root);
}

std::string broadcast(const Context& ctx, const std::string& text, int root) {
  internal::CheckRoot(ctx, "broadcast from", root);
  const c10::Device device = ControlDevice(ctx);
  // The first message has the size and the beginning of the text. Most texts fit into it.
  std::int64_t size = static_cast<std::int64_t>(text.size());
  torch::Tensor message = torch::zeros({kFirstOfText}, torch::kUInt8);
  const auto bytes = static_cast<char*>(message.data_ptr());
  const std::size_t room = kFirstOfText - sizeof(size);
  std::memcpy(bytes, &size, sizeof(size));
  std::memcpy(bytes + sizeof(size), text.data(), std::min(text.size(), room));
  internal::BroadcastBy(device, ctx, message, root);
  std::memcpy(&size, bytes, sizeof(size));
  const auto length = static_cast<std::size_t>(size);
  if (length <= room) return std::string(bytes + sizeof(size), length);
  torch::Tensor rest = ctx.rank() == root
                           ? internal::Bytes(text.substr(room))
                           : torch::empty({size - static_cast<std::int64_t>(room)}, torch::kUInt8);
  internal::BroadcastBy(device, ctx, rest, root);
  return std::string(bytes + sizeof(size), room) + internal::Text(rest);
}

void throw_if_any_failed(const Context& ctx, const std::string& local_error) {
  // One slot per rank, so that a single sum shows which ranks failed.
  torch::Tensor failed = torch::zeros({ctx.world_size()}, torch::kInt32);
  failed[ctx.rank()] = local_error.empty() ? 0 : 1;
  Sum(ctx, "throw_if_any_failed", failed, ControlDevice(ctx));
  const torch::Tensor ranks = failed.nonzero();
  if (ranks.numel() == 0) return;
  const int first = static_cast<int>(ranks[0].item<std::int64_t>());
  const std::string text = broadcast(ctx, local_error, first);
  throw AgreedError("rank " + std::to_string(first) + ": " + text, first, !local_error.empty());
}

void seed_everything(std::uint64_t seed, std::uint64_t per_rank_offset) {
  torch::manual_seed(seed + per_rank_offset);  // all default generators, including CUDA's
}

}  // namespace ddp
