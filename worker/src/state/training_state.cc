#include "worker/src/state/training_state.h"

#include <ddp/errors.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/contract/control.h"
#include "worker/src/state/optimizer_state.h"
#include "worker/src/state/state_image.h"

namespace ddp::internal {
namespace {

using nlohmann::json;

constexpr char kModelPrefix[] = "model.";
constexpr char kOptimizerPrefix[] = "optim.";
constexpr char kWrapperPrefix[] = "module.";  // added by Python's DistributedDataParallel

constexpr char kRates[] = "lr";                // a JSON array, one rate per parameter group
constexpr char kScheduleSteps[] = "lr_steps";  // decimal: the number of the scheduler's steps
constexpr char kSampler[] = "sampler";         // SamplerState::to_string()
constexpr char kBuckets[] = "buckets";         // GradientReducer::bucket_order()

// An LRScheduler has no other state, and this member is protected.
struct StepCount : torch::optim::LRScheduler {
  static unsigned& Of(torch::optim::LRScheduler& scheduler) {
    return scheduler.*(&StepCount::step_count_);
  }
};

std::optional<std::string> Find(const Texts& texts, const char* key) {
  const auto found = texts.find(key);
  if (found == texts.end()) return std::nullopt;
  return found->second;
}

std::vector<double> RatesOf(const Texts& texts) {
  const auto text = Find(texts, kRates);
  return text ? json::parse(*text).get<std::vector<double>>() : std::vector<double>();
}

// Throws CheckpointError unless scheduler and sampler can continue from `texts`.
void CheckTexts(const CheckpointParts& parts, const Texts& texts) {
  const std::size_t groups = parts.optimizer().param_groups().size();
  const std::vector<double> rates = RatesOf(texts);
  if (!rates.empty() && rates.size() != groups) {
    throw CheckpointError("it holds the learning rates of " + std::to_string(rates.size()) +
                          " parameter groups, this optimizer has " + std::to_string(groups));
  }
  if (parts.scheduler() != nullptr) {
    const auto steps = Find(texts, kScheduleSteps);
    if (!steps) throw CheckpointError("it holds no steps of a learning rate scheduler");
    if (!ddprun::control::ParseNumber(*steps)) {
      throw CheckpointError("its count of the scheduler's steps is no number: " + *steps);
    }
  }
  if (parts.sampler() != nullptr) {
    const auto place = Find(texts, kSampler);
    if (!place) throw CheckpointError("it holds no place of a sampler");
    DistributedSampler probe = *parts.sampler();
    try {
      probe.resume(SamplerState::from_string(*place));
    } catch (const ConfigError& e) {
      throw CheckpointError(e.what());
    }
  }
}

}  // namespace

std::vector<NamedTensor> TensorsOf(const CheckpointParts& parts) {
  std::vector<NamedTensor> result;
  const auto add = [&](const char* prefix, std::vector<NamedTensor> tensors) {
    for (NamedTensor& item : tensors) {
      result.push_back({prefix + item.name, item.tensor.detach()});
    }
  };
  add(kModelPrefix, Parameters(parts.module()));
  add(kModelPrefix, Buffers(parts.module()));
  add(kOptimizerPrefix, ExportOptimizerState(parts.optimizer()));
  return result;
}

std::vector<torch::Tensor> BuffersAmong(const CheckpointParts& parts,
                                        std::vector<NamedTensor>* tensors, int rank) {
  const std::size_t first = Parameters(parts.module()).size();
  const std::size_t count = Buffers(parts.module()).size();
  std::vector<torch::Tensor> buffers;
  for (std::size_t i = first; i < first + count; ++i) {
    torch::Tensor& tensor = (*tensors)[i].tensor;
    if (rank != 0) tensor = torch::empty_like(tensor);
    buffers.push_back(tensor);
  }
  return buffers;
}

Texts TextsOf(const CheckpointParts& parts) {
  Texts texts;
  texts[kRates] = json(LearningRates(parts.optimizer())).dump();
  if (parts.scheduler() != nullptr) {
    texts[kScheduleSteps] = std::to_string(StepCount::Of(*parts.scheduler()));
  }
  if (parts.sampler() != nullptr) texts[kSampler] = parts.sampler()->state().to_string();
  if (parts.reducer() != nullptr) {
    const std::string order = parts.reducer()->bucket_order();
    if (!order.empty()) texts[kBuckets] = order;
  }
  return texts;
}

RestorePlan::RestorePlan(const CheckpointParts& parts, const std::vector<TensorInfo>& tensors,
                         Texts texts)
    : parts_(&parts), tensors_(tensors), texts_(std::move(texts)) {
  TensorMap wanted;
  for (const NamedTensor& p : Parameters(parts.module())) wanted[p.name] = p.tensor;
  for (const NamedTensor& b : Buffers(parts.module())) wanted[b.name] = b.tensor;
  for (const TensorInfo& info : tensors_) {
    const auto form =
        torch::empty(info.shape, torch::TensorOptions(DtypeOf(info)).device(torch::kMeta));
    if (info.name.starts_with(kOptimizerPrefix)) {
      optimizer_[info.name.substr(sizeof(kOptimizerPrefix) - 1)] = form;
      continue;
    }
    if (!info.name.starts_with(kModelPrefix)) continue;
    std::string name = info.name.substr(sizeof(kModelPrefix) - 1);
    if (name.starts_with(kWrapperPrefix) && wanted.count(name) == 0) {
      name = name.substr(sizeof(kWrapperPrefix) - 1);
    }
    const auto target = wanted.find(name);
    if (target == wanted.end()) throw CheckpointError("it holds " + name + ", the model has none");
    if (Describe(form) != Describe(target->second)) {
      throw CheckpointError("it holds " + name + " as " + Describe(form) + ", the model has " +
                            Describe(target->second));
    }
    model_[info.name] = target->second;
    wanted.erase(target);
  }
  if (!wanted.empty()) throw CheckpointError("it lacks " + wanted.begin()->first);
  const std::string mismatch = OptimizerStateMismatch(parts.optimizer(), optimizer_);
  if (!mismatch.empty()) throw CheckpointError(mismatch);
  CheckTexts(parts, texts_);
}

std::vector<torch::Tensor> RestorePlan::Destinations() {
  // Reuses the tensors that the optimizer already has, because touching new memory costs more than
  // the copy.
  TensorMap there;
  for (const NamedTensor& item : ExportOptimizerState(parts_->optimizer())) {
    there[item.name] = item.tensor;
  }
  for (auto& [name, tensor] : optimizer_) {
    const auto old = there.find(name);
    const bool fits = old != there.end() && Describe(old->second) == Describe(tensor);
    tensor = fits ? old->second : torch::empty(tensor.sizes(), tensor.scalar_type());
  }
  std::vector<torch::Tensor> result;
  for (const TensorInfo& info : tensors_) {
    if (info.name.starts_with(kOptimizerPrefix)) {
      result.push_back(optimizer_.at(info.name.substr(sizeof(kOptimizerPrefix) - 1)));
    } else {
      const auto target = model_.find(info.name);
      result.push_back(target == model_.end() ? torch::Tensor() : target->second.detach());
    }
  }
  return result;
}

void RestorePlan::Finish() {
  const torch::NoGradGuard no_grad;
  ImportOptimizerState(parts_->optimizer(), optimizer_);
  SetLearningRates(parts_->optimizer(), RatesOf(texts_));
  if (parts_->scheduler() != nullptr) {
    const auto steps = ddprun::control::ParseNumber(texts_.at(kScheduleSteps));
    StepCount::Of(*parts_->scheduler()) = static_cast<unsigned>(*steps);
  }
  if (parts_->sampler() != nullptr) {
    parts_->sampler()->resume(SamplerState::from_string(texts_.at(kSampler)));
  }
  if (parts_->reducer() != nullptr) {
    parts_->reducer()->set_bucket_order(Find(texts_, kBuckets).value_or(""));
  }
}

}  // namespace ddp::internal
