#include <c10/core/GradMode.h>
#include <ddp/distributed_data_parallel.h>
#include <ddp/errors.h>

#include <algorithm>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "worker/src/compat.h"
#include "worker/src/model_sync.h"

namespace ddp::detail {

using internal::NamedTensor;

struct GradientReducer::State {
  // Constant after construction.
  const Context* ctx = nullptr;  // the user's; outlives this
  bool broadcast_buffers = true;
  std::vector<torch::Tensor> parameters;  // those with gradients
  std::vector<torch::Tensor> buffers;
  std::unique_ptr<c10d::Reducer> reducer;

  // PyTorch's require_forward_param_sync: buffers may have changed since the last broadcast.
  bool buffers_changed = true;
};

namespace {

std::vector<torch::Tensor> Tensors(const std::vector<NamedTensor>& named) {
  std::vector<torch::Tensor> tensors;
  for (const NamedTensor& item : named) tensors.push_back(item.tensor);
  return tensors;
}

// Buckets in the reverse order of the parameters, which is roughly the order in which backward
// fills them. The Reducer makes that exact after the first step.
std::unique_ptr<c10d::Reducer> MakeReducer(const Context& ctx,
                                           const std::vector<NamedTensor>& parameters,
                                           const DataParallelOptions& options) {
  compat::ReducerArguments arguments;
  arguments.parameters = Tensors(parameters);
  std::tie(arguments.buckets, arguments.bucket_limits) = c10d::compute_bucket_assignment_by_size(
      arguments.parameters, {static_cast<std::size_t>(options.first_bucket_bytes),
                             static_cast<std::size_t>(options.bucket_bytes)});
  std::reverse(arguments.buckets.begin(), arguments.buckets.end());
  std::reverse(arguments.bucket_limits.begin(), arguments.bucket_limits.end());
  arguments.group = ctx.process_group();
  arguments.first_bucket_bytes = options.first_bucket_bytes;
  arguments.bucket_bytes = options.bucket_bytes;
  arguments.find_unused_parameters = false;
  arguments.gradient_as_bucket_view = options.gradient_as_bucket_view;
  for (std::size_t i = 0; i < parameters.size(); ++i) arguments.names[i] = parameters[i].name;
  return compat::MakeReducer<c10d::Reducer>(std::move(arguments));
}

}  // namespace

GradientReducer::GradientReducer(const Context& ctx, const torch::nn::Module& module,
                                 const DataParallelOptions& options)
    : state_(std::make_unique<State>()) {
  if (options.first_bucket_bytes < 1 || options.bucket_bytes < 1) {
    throw ConfigError("DataParallelOptions: bucket sizes must be at least 1 byte");
  }
  std::vector<NamedTensor> parameters = internal::Parameters(module);
  const std::vector<NamedTensor> buffers = internal::Buffers(module);
  internal::CheckSameModel(ctx, parameters, buffers);
  state_->ctx = &ctx;
  state_->broadcast_buffers = options.broadcast_buffers;
  state_->buffers = Tensors(buffers);

  std::vector<torch::Tensor> everything = Tensors(parameters);
  everything.insert(everything.end(), state_->buffers.begin(), state_->buffers.end());
  internal::BroadcastFromRank0(ctx, everything);

  parameters.erase(std::remove_if(parameters.begin(), parameters.end(),
                                  [](const NamedTensor& p) { return !p.tensor.requires_grad(); }),
                   parameters.end());
  if (parameters.empty()) {
    throw ConfigError(
        "DistributedDataParallel: no parameter of the module requires a gradient, so there is "
        "nothing to average; use the module as it is");
  }
  state_->parameters = Tensors(parameters);
  state_->reducer = MakeReducer(ctx, parameters, options);
}

GradientReducer::~GradientReducer() = default;

// The order of steps is that of DistributedDataParallel.forward in PyTorch
// (torch/nn/parallel/distributed.py).
void GradientReducer::before_forward() {
  if (c10::GradMode::is_enabled()) {
    state_->reducer->prepare_for_forward();
    state_->reducer->rebuild_buckets();
  }
  if (state_->buffers_changed && state_->broadcast_buffers) sync_buffers();
}

void GradientReducer::after_forward() {
  state_->buffers_changed = c10::GradMode::is_enabled();
  // The list of outputs only serves a search for unused parameters, which is off.
  if (state_->buffers_changed) state_->reducer->prepare_for_backward({});
}

void GradientReducer::sync_buffers() {
  internal::BroadcastFromRank0(*state_->ctx, state_->buffers);
}

void GradientReducer::zero_grad() {
  for (torch::Tensor& parameter : state_->parameters) {
    const torch::Tensor& gradient = parameter.grad();
    if (gradient.defined()) gradient.detach().zero_();
  }
}

std::vector<std::size_t> GradientReducer::bucket_sizes() const {
  std::vector<std::size_t> sizes;
  for (const c10d::GradBucket& bucket : state_->reducer->get_grad_buckets(false)) {
    sizes.push_back(bucket.getBuffer().nbytes());
  }
  return sizes;
}

}  // namespace ddp::detail
