// DistributedDataParallel::join(). It runs the collectives of PyTorch 1.13's
// torch.distributed.algorithms.Join and of its join hook for DistributedDataParallel, in the same
// order.
#include <ddp/distributed_data_parallel.h>
#include <ddp/errors.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>
#include <vector>

#include "worker/src/data_parallel/gradient_reducer_state.h"
#include "worker/src/group/control_device.h"
#include "worker/src/group/failure.h"

namespace ddp::detail {
namespace {

using internal::ControlDevice;

using WorkPtr = decltype(std::declval<c10d::ProcessGroup>().allreduce(
    std::declval<std::vector<torch::Tensor>&>()));

WorkPtr StartReduce(const Context& ctx, torch::Tensor tensor,
                    c10d::ReduceOp operation = c10d::ReduceOp::SUM) {
  std::vector<torch::Tensor> tensors = {std::move(tensor)};
  c10d::AllreduceOptions options;
  options.reduceOp = operation;
  return ctx.process_group()->allreduce(tensors, options);
}

torch::Tensor Flag(const Context& ctx, bool set) {
  return torch::full({1}, set ? 1 : 0,
                     torch::TensorOptions(torch::kInt64).device(ControlDevice(ctx)));
}

constexpr char kTakingPart[] = "join(): keeping step with ranks that have more inputs";

void Reduce(const Context& ctx, const torch::Tensor& tensor,
            c10d::ReduceOp operation = c10d::ReduceOp::SUM) {
  internal::Collective(kTakingPart, ctx.rank(), ctx.world_size(),
                       [&] { StartReduce(ctx, tensor, operation)->wait(); });
}

std::int64_t Sum(const Context& ctx, bool set) {
  const torch::Tensor flag = Flag(ctx, set);
  Reduce(ctx, flag);
  return flag.item<std::int64_t>();
}

// For throw_on_early_termination. Throws on all ranks if any rank has no more inputs.
void ThrowIfOneHasEnded(const Context& ctx, bool ended) {
  const torch::Tensor of_rank = torch::zeros(
      {ctx.world_size()}, torch::TensorOptions(torch::kInt64).device(ControlDevice(ctx)));
  if (ended) of_rank[ctx.rank()].fill_(1);
  Reduce(ctx, of_rank);
  const torch::Tensor ranks = of_rank.nonzero();
  if (ranks.numel() == 0) return;
  const int first = static_cast<int>(ranks[0].item<std::int64_t>());
  throw AgreedError("rank " + std::to_string(first) +
                        ": no more inputs, and JoinOptions::throw_on_early_termination is set",
                    first, ended);
}

}  // namespace

void GradientReducer::tell_joined() {
  State& state = *state_;
  const WorkPtr work = StartReduce(*state.ctx, Flag(*state.ctx, true));
  if (state.join->throw_on_early_termination) ThrowIfOneHasEnded(*state.ctx, false);
  state.reducer->set_forward_pass_work_handle(work, state.join->divide_by_initial_world_size);
}

void GradientReducer::tell_whether_gradients_follow() {
  Sum(*state_->ctx, c10::GradMode::is_enabled() && state_->synchronize);
}

int GradientReducer::highest_rank(bool eligible) const {
  const Context& ctx = *state_->ctx;
  const torch::Tensor rank =
      torch::full({1}, eligible ? ctx.rank() : -1,
                  torch::TensorOptions(torch::kInt64).device(ControlDevice(ctx)));
  Reduce(ctx, rank, c10d::ReduceOp::MAX);
  return static_cast<int>(rank.item<std::int64_t>());
}

void GradientReducer::shadow_step() {
  State& state = *state_;
  state.reducer->rebuild_buckets();
  if (state.buffers_changed && state.options.broadcast_buffers) {
    sync_buffers_from(highest_rank(false));
  }
  state.buffers_changed = Sum(*state.ctx, false) != 0;
  if (!state.buffers_changed) return;
  std::vector<c10::intrusive_ptr<c10::ivalue::Future>> running;
  std::vector<c10d::GradBucket> buckets =
      state.reducer->get_grad_buckets(/*return_zero_tensors=*/true);
  internal::Collective(kTakingPart, state.ctx->rank(), state.ctx->world_size(), [&] {
    for (c10d::GradBucket& bucket : buckets) {
      running.push_back(state.reducer->run_comm_hook(bucket));
    }
    for (const auto& future : running) future->waitAndThrow();
  });
  if (state.SearchesInEachStep()) {
    Reduce(*state.ctx, state.reducer->get_local_used_map_on_device());
  }
  state.reducer->push_rebuilt_params_for_all_indices();
}

void GradientReducer::join(const std::function<void()>& train, const JoinOptions& options) {
  State& state = *state_;
  if (state.join) throw ConfigError("DistributedDataParallel: join() within join()");
  const Context& ctx = *state.ctx;
  if (ctx.world_size() == 1) return train();
  struct Joining {
    Joining(std::optional<JoinOptions>* place, const JoinOptions& options) : place(place) {
      *place = options;
    }
    ~Joining() { place->reset(); }
    std::optional<JoinOptions>* const place;
  };
  {
    const Joining joining(&state.join, options);
    train();
  }
  bool is_last = true;
  while (Sum(ctx, false) != 0) {
    if (options.throw_on_early_termination) ThrowIfOneHasEnded(ctx, true);
    const torch::NoGradGuard no_grad;
    shadow_step();
    is_last = false;
  }
  send_all_from(highest_rank(is_last));
}

}  // namespace ddp::detail
