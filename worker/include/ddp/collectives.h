// Small collectives, and seeding. Every function here except seed_everything() is a collective: all
// ranks must call it, in the same order, one thread at a time. Each blocks until its result is
// there, and throws CollectiveError if a peer is gone or the timeout is over.
//
// Tensors may be on the CPU or on Context::device(); they are copied to where the backend can reach
// them, and back. Otherwise the semantics are those of torch.distributed: all_reduce, reduce,
// broadcast and monitored_barrier (torch/distributed/distributed_c10d.py).
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
// For every other integer type, converted to int64_t.
template <typename Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
std::int64_t all_reduce_sum(const Context& ctx, Integer value) {
  return all_reduce_sum(ctx, static_cast<std::int64_t>(value));
}
double all_reduce_mean(const Context& ctx, double value);

// Replaces `tensor` on every rank by its sum, or mean, over all ranks. Shape and dtype must be the
// same on all ranks. Supported dtypes: float, double, half, bfloat16, int8, uint8, int32 and int64;
// for the mean only the floating-point ones. A rank with another dtype throws ConfigError, and the
// other ranks wait for it.
void all_reduce_sum(const Context& ctx, torch::Tensor& tensor);
void all_reduce_mean(const Context& ctx, torch::Tensor& tensor);

// Like all_reduce, but only rank `root` gets the result; on other ranks `tensor` does not change.
// Throws ConfigError if `root` is not a rank.
void reduce_sum(const Context& ctx, torch::Tensor& tensor, int root = 0);
void reduce_mean(const Context& ctx, torch::Tensor& tensor, int root = 0);

// Replaces `tensor` on every rank by rank `root`'s. Any dtype; shape and dtype must be the same on
// all ranks. Throws ConfigError if `root` is not a rank.
void broadcast(const Context& ctx, torch::Tensor& tensor, int root = 0);

// Returns rank `root`'s text, of any length, on every rank. Throws ConfigError if `root` is not a
// rank.
std::string broadcast(const Context& ctx, const std::string& text, int root = 0);

// Returns when every rank has called it. On CUDA it first waits for the work that this rank has
// queued on its device. Default of `timeout`: Options::timeout, which also limits a longer
// `timeout` if the group carries CPU tensors.
//
// Throws CollectiveError; the group is not usable after that. The text names the missing ranks:
// `barrier: rank 3 has not come within 5 s; ranks 0, 1, 2 wait`. If a rank dies, the others stop
// waiting at once, and the text has that cause; with nccl in libtorch 1.13 they wait until the
// timeout.
void barrier(const Context& ctx);
void barrier(const Context& ctx, std::chrono::milliseconds timeout);

// Turns an error on some ranks into the same error on all ranks, so that no rank enters a
// collective that a failed rank will never enter. `local_error`: "" if this rank has no error.
// Returns if it is "" on all ranks; otherwise every rank throws AgreedError with the text `rank
// <lowest failing>: <its local_error>`.
//
//   std::string problem;
//   try { data = read(path); } catch (const std::exception& e) { problem = e.what(); }
//   ddp::throw_if_any_failed(ctx, problem);
void throw_if_any_failed(const Context& ctx, const std::string& local_error);

// Seeds libtorch's default generators (CPU and CUDA) with seed + per_rank_offset. Give the same
// seed on all ranks to start with equal weights; then seed again with ctx.rank() as the offset, so
// that dropout differs between ranks. Not a collective.
void seed_everything(std::uint64_t seed, std::uint64_t per_rank_offset = 0);

}  // namespace ddp

#endif  // DDP_COLLECTIVES_H_
