#include <c10/core/GradMode.h>
#include <ddp/errors.h>
#include <ddp/sync_batch_norm.h>
#include <torch/autograd.h>
#include <torch/nn/functional/batchnorm.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "worker/src/group/failure.h"

namespace ddp {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Doubles hold every count exactly. They cost nothing, because only a few numbers per feature are
// sent.
constexpr at::ScalarType kWire = torch::kFloat64;

at::ScalarType ComputedIn(const Tensor& input) {
  return input.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

// All dimensions except the dimension of the features.
std::vector<std::int64_t> Reduced(const Tensor& input) {
  std::vector<std::int64_t> dimensions = {0};
  for (std::int64_t i = 2; i < input.dim(); ++i) dimensions.push_back(i);
  return dimensions;
}

// Reshapes `values`, one per feature, so that it broadcasts over `input`.
Tensor Spread(const Tensor& values, const Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = input.size(1);
  return values.to(ComputedIn(input)).view(shape);
}

// The statistics over all ranks. They stay on the input's device as doubles, so the host does not
// wait for them.
struct Statistics {
  Tensor mean;
  Tensor variance;  // biased
  Tensor count;     // values per feature, [1]
};

Statistics Gather(const Context& ctx, const Tensor& input) {
  const std::int64_t features = input.size(1);
  Tensor wire = torch::zeros({2 * features + 1}, input.options().dtype(kWire));
  if (input.numel() > 0) {
    const auto [variance, mean] = torch::var_mean(input.to(ComputedIn(input)), Reduced(input),
                                                  /*unbiased=*/false);
    wire.narrow(0, 0, features).copy_(mean);
    wire.narrow(0, features, features).copy_(variance);
    wire[2 * features].fill_(input.numel() / features);
  }
  std::vector<std::vector<Tensor>> outputs(1);
  for (int i = 0; i < ctx.world_size(); ++i) outputs[0].push_back(torch::empty_like(wire));
  std::vector<Tensor> inputs = {wire};
  internal::Collective("SyncBatchNorm's all_gather", ctx.rank(), ctx.world_size(),
                       [&] { ctx.process_group()->allgather(outputs, inputs)->wait(kNoTimeout); });

  const Tensor all = torch::stack(outputs[0]);  // [ranks, 2 * features + 1]
  const Tensor means = all.narrow(1, 0, features);
  const Tensor variances = all.narrow(1, features, features);
  const Tensor counts = all.narrow(1, 2 * features, 1);
  Statistics result;
  result.count = counts.sum(0);
  const Tensor shares = counts / result.count.clamp_min(1);
  result.mean = (means * shares).sum(0);
  result.variance = ((variances + (means - result.mean).square()) * shares).sum(0);
  return result;
}

void SumOverRanks(const Context& ctx, Tensor* wire) {
  std::vector<Tensor> tensors = {*wire};
  internal::Collective("SyncBatchNorm's all_reduce", ctx.rank(), ctx.world_size(),
                       [&] { ctx.process_group()->allreduce(tensors)->wait(kNoTimeout); });
}

// Computes (input - mean) / deviation * weight + bias. mean and deviation depend on the inputs of
// all ranks.
class Normalize : public torch::autograd::Function<Normalize> {
 public:
  static Tensor forward(AutogradContext* saved, const Tensor& input, const Tensor& weight,
                        const Tensor& bias, const Tensor& mean, const Tensor& inverse_deviation,
                        const Tensor& count, const Context* ctx) {
    saved->save_for_backward({input, weight, mean, inverse_deviation, count});
    saved->saved_data["context"] = reinterpret_cast<std::int64_t>(ctx);
    Tensor output = (input.to(ComputedIn(input)) - Spread(mean, input)) *
                    Spread(inverse_deviation * weight, input);
    output += Spread(bias, input);
    return output.to(input.scalar_type());
  }

  static variable_list backward(AutogradContext* saved, variable_list gradients) {
    if (c10::GradMode::is_enabled()) {
      throw Error(
          "SyncBatchNorm: backward() with create_graph is not possible: a gradient of its gradient "
          "would need another collective");
    }
    const variable_list tensors = saved->get_saved_variables();
    const Tensor& input = tensors[0];
    const Tensor& weight = tensors[1];
    const Tensor& inverse_deviation = tensors[3];
    const at::ScalarType dtype = ComputedIn(input);
    const Tensor gradient = gradients[0].to(dtype);
    const Tensor distance = input.to(dtype) - Spread(tensors[2], input);
    const std::vector<std::int64_t> reduced = Reduced(input);
    const Tensor sum = gradient.sum(reduced).to(kWire);
    const Tensor product = (gradient * distance).sum(reduced).to(kWire);

    variable_list results(7);  // one for each argument of forward()
    if (saved->needs_input_grad(1)) {
      results[1] = (product * inverse_deviation).to(weight.scalar_type());
    }
    // A bias has the same dtype as the weight.
    if (saved->needs_input_grad(2)) results[2] = sum.to(weight.scalar_type());
    if (!saved->needs_input_grad(0)) return results;

    const auto* const ctx = reinterpret_cast<const Context*>(saved->saved_data["context"].toInt());
    Tensor wire = torch::cat({sum, product});
    SumOverRanks(*ctx, &wire);
    wire /= tensors[4].clamp_min(1);
    const std::int64_t features = input.size(1);
    const Tensor mean_gradient = wire.narrow(0, 0, features);
    const Tensor slope = wire.narrow(0, features, features) * inverse_deviation.square();
    results[0] = ((gradient - Spread(mean_gradient, input) - distance * Spread(slope, input)) *
                  Spread(inverse_deviation * weight, input))
                     .to(input.scalar_type());
    return results;
  }
};

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(std::int64_t num_features)
    : SyncBatchNormImpl(torch::nn::BatchNormOptions(num_features)) {}

SyncBatchNormImpl::SyncBatchNormImpl(const torch::nn::BatchNormOptions& options)
    : NormImplBase(options) {}

SyncBatchNormImpl::SyncBatchNormImpl(const Context& ctx, const torch::nn::BatchNormOptions& options)
    : NormImplBase(options), ctx_(&ctx) {}

void SyncBatchNormImpl::_check_input_dim(const Tensor& input) {
  if (input.dim() >= 2 && input.size(1) == options.num_features()) return;
  std::string shape;
  for (const std::int64_t size : input.sizes()) {
    shape += (shape.empty() ? "" : ", ") + std::to_string(size);
  }
  throw ConfigError("SyncBatchNorm: the input is [" + shape + "], expected [batch, " +
                    std::to_string(options.num_features()) + ", ...]");
}

Tensor SyncBatchNormImpl::forward(const Tensor& input) {
  _check_input_dim(input);
  if (!is_training() || ctx_ == nullptr || ctx_->world_size() == 1) return ForwardAlone(input);

  Tensor mean;
  Tensor inverse_deviation;
  Tensor count;
  {
    const torch::NoGradGuard no_grad;
    const Statistics all = Gather(*ctx_, input.detach());
    UpdateRunningStatistics(all.mean, all.variance, all.count);
    mean = all.mean;
    inverse_deviation = (all.variance + options.eps()).rsqrt();
    count = all.count;
  }
  // An autograd::Function accepts no undefined tensors.
  return Normalize::apply(input, weight.defined() ? weight : torch::ones_like(mean),
                          bias.defined() ? bias : torch::zeros_like(mean), mean, inverse_deviation,
                          count, ctx_);
}

// The same result as torch::nn::BatchNorm1d.
Tensor SyncBatchNormImpl::ForwardAlone(const Tensor& input) {
  double factor = options.momentum().value_or(0);
  if (is_training() && options.track_running_stats() && num_batches_tracked.defined()) {
    num_batches_tracked += 1;
    if (!options.momentum()) factor = 1 / num_batches_tracked.item<double>();
  }
  return torch::nn::functional::detail::batch_norm(input, running_mean, running_var, weight, bias,
                                                   is_training() || !options.track_running_stats(),
                                                   factor, options.eps());
}

void SyncBatchNormImpl::UpdateRunningStatistics(const Tensor& mean, const Tensor& variance,
                                                const Tensor& count) {
  if (!options.track_running_stats() || !running_mean.defined()) return;
  const Tensor any = count[0] > 0;
  num_batches_tracked += any.to(num_batches_tracked.scalar_type());
  // The weight of the new values. It is computed on the device, so the host does not wait for it.
  const Tensor factor = any * (options.momentum() ? torch::full_like(count[0], *options.momentum())
                                                  : 1 / num_batches_tracked.clamp_min(1).to(kWire));
  const Tensor unbiased = variance * count / (count - 1).clamp_min(1);
  running_mean.copy_(running_mean * (1 - factor) + mean * factor);
  running_var.copy_(running_var * (1 - factor) + unbiased * factor);
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "ddp::SyncBatchNorm(" << options.num_features()
         << ", eps=" << options.eps() << ", momentum=";
  if (options.momentum()) {
    stream << *options.momentum();
  } else {
    stream << "none";
  }
  stream << ", affine=" << options.affine()
         << ", track_running_stats=" << options.track_running_stats() << ")";
}

// ---- conversion ----

namespace {

// Converts a batch normalization to a SyncBatchNorm. Null for any other module.
std::shared_ptr<SyncBatchNormImpl> Converted(const Context& ctx, const torch::nn::Module& module) {
  if (const auto* norm = module.as<torch::nn::BatchNorm1d>()) {
    return std::make_shared<SyncBatchNormImpl>(ctx, *norm);
  }
  if (const auto* norm = module.as<torch::nn::BatchNorm2d>()) {
    return std::make_shared<SyncBatchNormImpl>(ctx, *norm);
  }
  if (const auto* norm = module.as<torch::nn::BatchNorm3d>()) {
    return std::make_shared<SyncBatchNormImpl>(ctx, *norm);
  }
  return nullptr;
}

// The plan of a conversion. It is made before anything changes.
class Conversion {
 public:
  explicit Conversion(const Context& ctx) : ctx_(ctx) {}

  void Visit(torch::nn::Module* module, const std::string& prefix) {
    if (!seen_.insert(module).second) return;
    if (auto* const norm = dynamic_cast<SyncBatchNormImpl*>(module)) {
      if (norm->context() == nullptr) without_context_.push_back(norm);
      return;
    }
    auto* const sequential = dynamic_cast<torch::nn::SequentialImpl*>(module);
    for (const auto& child : module->named_children()) {
      const std::string name = prefix + child.key();
      const std::shared_ptr<SyncBatchNormImpl> norm = ReplacementOf(child.value());
      if (norm == nullptr) {
        Visit(child.value().get(), name + ".");
      } else if (torch::nn::AnyModule* const item = Item(sequential, child.value())) {
        items_.push_back({sequential, child.key(), item, norm});
      } else {
        unreachable_.push_back(name);
      }
    }
  }

  void Apply() const {
    if (!unreachable_.empty()) {
      std::string names;
      for (const std::string& name : unreachable_)
        names += (names.empty() ? "'" : ", '") + name + "'";
      throw ConfigError(
          "convert_sync_batchnorm: " + names +
          " cannot be replaced: in C++ the module around it calls the BatchNorm that it holds, "
          "whatever is registered. Declare it as ddp::SyncBatchNorm, or put it into a Sequential");
    }
    for (SyncBatchNormImpl* const norm : without_context_) norm->synchronize(ctx_);
    for (const Place& place : items_) {
      *place.item = torch::nn::AnyModule(place.norm);
      place.sequential->replace_module(place.name, place.norm);
    }
  }

 private:
  struct Place {
    torch::nn::SequentialImpl* sequential;
    std::string name;
    torch::nn::AnyModule* item;  // owned by the Sequential
    std::shared_ptr<SyncBatchNormImpl> norm;
  };

  std::shared_ptr<SyncBatchNormImpl> ReplacementOf(
      const std::shared_ptr<torch::nn::Module>& module) {
    const auto known = replacements_.find(module.get());
    if (known != replacements_.end()) return known->second;
    return replacements_[module.get()] = Converted(ctx_, *module);
  }

  // The item of a Sequential that holds its child `module`; null if there is none.
  torch::nn::AnyModule* Item(torch::nn::SequentialImpl* sequential,
                             const std::shared_ptr<torch::nn::Module>& module) const {
    if (sequential == nullptr) return nullptr;
    for (torch::nn::AnyModule& item : *sequential) {
      if (item.ptr() != module) continue;
      // A module that is registered twice has two items.
      const bool taken = std::any_of(items_.begin(), items_.end(),
                                     [&](const Place& place) { return place.item == &item; });
      if (!taken) return &item;
    }
    return nullptr;
  }

  const Context& ctx_;
  std::unordered_set<const torch::nn::Module*> seen_;
  std::unordered_map<const torch::nn::Module*, std::shared_ptr<SyncBatchNormImpl>> replacements_;
  std::vector<Place> items_;
  std::vector<SyncBatchNormImpl*> without_context_;
  std::vector<std::string> unreachable_;
};

}  // namespace

std::shared_ptr<torch::nn::Module> convert_sync_batchnorm(
    const Context& ctx, const std::shared_ptr<torch::nn::Module>& module) {
  if (auto norm = Converted(ctx, *module)) return norm;
  Conversion conversion(ctx);
  conversion.Visit(module.get(), "");
  conversion.Apply();
  return module;
}

}  // namespace ddp
