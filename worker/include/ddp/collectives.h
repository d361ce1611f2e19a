// Small collectives, and seeding. Every function here except seed_everything is a collective: all
// ranks must call it, in the same order. Each blocks until its result is there, runs on one thread
// at a time, and throws CollectiveError if a peer is gone or the timeout is over.
//
// Tensors may be on the CPU or on Context::device(); they are moved to where the backend can reach
// them, and back. Everything else is as in torch.distributed: all_reduce, reduce, broadcast, and
// monitored_barrier (torch/distributed/distributed_c10d.py).
#ifndef DDP_COLLECTIVES_H_
#define DDP_COLLECTIVES_H_

#include <ddp/context.h>
#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <type_traits>

namespace ddp {

// The sum, or the mean, of `value` over all ranks.
double all_reduce_sum(const Context& ctx, double value);
std::int64_t all_reduce_sum(const Context& ctx, std::int64_t value);
// A number of any other type of integer, as int64_t.
template <typename Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
std::int64_t all_reduce_sum(const Context& ctx, Integer value) {
  return all_reduce_sum(ctx, static_cast<std::int64_t>(value));
}
double all_reduce_mean(const Context& ctx, double value);

// Replaces `tensor` on every rank by its sum, or mean, over all ranks. Shape and dtype must be the
// same on all ranks. Throws ConfigError on each rank whose dtype is not float, double, half,
// bfloat16, int8, uint8, int32 or int64; for the mean, not a floating-point dtype.
void all_reduce_sum(const Context& ctx, torch::Tensor& tensor);
void all_reduce_mean(const Context& ctx, torch::Tensor& tensor);

// The same, on rank `root` only: elsewhere `tensor` stays as it is.
void reduce_sum(const Context& ctx, torch::Tensor& tensor, int root = 0);
void reduce_mean(const Context& ctx, torch::Tensor& tensor, int root = 0);

// Replaces `tensor` on every rank by that of `root`. Same shape and dtype, any, on all ranks.
void broadcast(const Context& ctx, torch::Tensor& tensor, int root = 0);

// The text of `root`, of any length, on every rank.
std::string broadcast(const Context& ctx, const std::string& text, int root = 0);

// Returns when every rank has called it. On CUDA it first waits for the work that this rank has
// queued on its device. Without `timeout`: Options::timeout, which also ends a longer `timeout` if
// the group carries tensors on the CPU.
//
// Throws CollectiveError; after that the group is not usable. The text names the missing ranks:
// `barrier: rank 3 has not come within 5 s; ranks 0, 1, 2 wait`. If a rank dies, the others stop
// waiting at once, and the text has that cause; with nccl in libtorch 1.13 they wait until the
// timeout.
void barrier(const Context& ctx);
void barrier(const Context& ctx, std::chrono::milliseconds timeout);

// Turns an error of some ranks into the same error on all ranks, so that no rank enters a
// collective that a failed rank will never enter. `local_error`: empty if this rank is well.
// Returns if it is empty on all ranks; otherwise every rank throws AgreedError with the text `rank
// <lowest failing>: <its local_error>`.
//
//   std::string problem;
//   try { data = read(path); } catch (const std::exception& e) { problem = e.what(); }
//   ddp::throw_if_any_failed(ctx, problem);
void throw_if_any_failed(const Context& ctx, const std::string& local_error);

// Seeds libtorch's default generators (CPU, and CUDA where there is one) with
// seed + per_rank_offset. Give the same seed on all ranks to start from the same weights, then
// seed again with ctx.rank() as the offset to let dropout differ between ranks. Not a collective.
void seed_everything(std::uint64_t seed, std::uint64_t per_rank_offset = 0);

}  // namespace ddp

#endif  // DDP_COLLECTIVES_H_
