// Small collectives, and seeding.
//
// Every function here except seed_everything() is a collective: all ranks must call it, in the same
// order, from one thread at a time. Each function blocks until it has its result. It throws
// CollectiveError if another rank is gone, or if Options::timeout has passed. With NCCL, this
// timeout ends the process instead, except in ddp::run_in_place (docs/gpu.md).
//
// Tensors may be on the CPU or on Context::device(). If a tensor is not on Context::device(), the
// library copies it there and copies the result back. Otherwise the semantics are those of
// torch.distributed: all_reduce, reduce, broadcast and monitored_barrier
// (torch/distributed/distributed_c10d.py).
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
// For every other integer type. Converts `value` to int64_t.
template <typename Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
std::int64_t all_reduce_sum(const Context& ctx, Integer value) {
  return all_reduce_sum(ctx, static_cast<std::int64_t>(value));
}
double all_reduce_mean(const Context& ctx, double value);

// Replaces `tensor` on every rank by its sum, or mean, over all ranks. Shape and dtype must be the
// same on all ranks. The sum supports the dtypes float, double, half, bfloat16, int8, uint8, int32
// and int64; the mean supports only float, double, half and bfloat16. A rank that gives another
// dtype throws ConfigError, and the other ranks then wait for that rank, at most Options::timeout.
void all_reduce_sum(const Context& ctx, torch::Tensor& tensor);
void all_reduce_mean(const Context& ctx, torch::Tensor& tensor);

// Like all_reduce, but only rank `root` gets the result. On other ranks `tensor` does not change.
// Throws ConfigError if `root` is not a rank.
void reduce_sum(const Context& ctx, torch::Tensor& tensor, int root = 0);
void reduce_mean(const Context& ctx, torch::Tensor& tensor, int root = 0);

// Replaces the values of `tensor` on every rank by those of rank `root`. The dtype may be any.
// Shape and dtype must be the same on all ranks. Throws ConfigError if `root` is not a rank.
void broadcast(const Context& ctx, torch::Tensor& tensor, int root = 0);

// Returns rank `root`'s text, of any length, on every rank. Throws ConfigError if `root` is not a
// rank.
std::string broadcast(const Context& ctx, const std::string& text, int root = 0);

// Returns after every rank has called it. On CUDA it first waits for the work that this rank has
// queued on its device. The default of `timeout` is Options::timeout. A longer `timeout` has no
// effect, except with nccl in libtorch 1.13.
//
// After the timeout it throws CollectiveError, whose text names the missing ranks: `barrier: rank 3
// has not come within 5 s; ranks 0, 1, 2 wait`. If a rank dies, the other ranks throw at once, and
// the text has that cause. (With nccl in libtorch 1.13 they wait until the timeout.) After an error
// the group cannot be used any more.
void barrier(const Context& ctx);
void barrier(const Context& ctx, std::chrono::milliseconds timeout);

// Turns an error on some ranks into the same error on all ranks. So no rank enters a collective
// that a failed rank will never enter. `local_error` is the text of this rank's error, or "" if it
// has none. If it is "" on all ranks, the function returns. Otherwise every rank throws AgreedError
// with the text `rank <lowest failing>: <its local_error>`.
//
//   std::string problem;
//   try { data = read(path); } catch (const std::exception& e) { problem = e.what(); }
//   ddp::throw_if_any_failed(ctx, problem);
void throw_if_any_failed(const Context& ctx, const std::string& local_error);

// Seeds libtorch's default generators (CPU and CUDA) with seed + per_rank_offset. Before the model
// is made, give the same seed and no offset on all ranks: then they begin with equal weights. After
// that, seed again with ctx.rank() as the offset: then dropout differs between ranks. Not a
// collective.
void seed_everything(std::uint64_t seed, std::uint64_t per_rank_offset = 0);

}  // namespace ddp

#endif  // DDP_COLLECTIVES_H_
