#include <ATen/CPUGeneratorImpl.h>
#include <ddp/distributed_sampler.h>
#include <ddp/errors.h>
#include <torch/serialize/archive.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/src/agent/progress.h"

namespace ddp {
namespace {

std::size_t CheckedReplicas(int num_replicas, int rank) {
  if (num_replicas < 1 || rank < 0 || rank >= num_replicas) {
    throw ConfigError("DistributedSampler: rank " + std::to_string(rank) + " of " +
                      std::to_string(num_replicas) +
                      " replicas; the rank must be in 0..num_replicas-1");
  }
  return static_cast<std::size_t>(num_replicas);
}

// The order of the whole dataset in an epoch. Uses a generator of its own, not the default one.
torch::Tensor Order(std::size_t dataset_size, const SamplerOptions& options, std::size_t epoch) {
  const auto size = static_cast<std::int64_t>(dataset_size);
  if (!options.shuffle) return torch::arange(size, torch::dtype(torch::kInt64));
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(options.seed + epoch);
  return torch::randperm(size, generator, torch::dtype(torch::kInt64));
}

// For example "dataset_size 10 there, 12 here, ". Empty if both are the same.
template <typename Value>
std::string Difference(const char* name, Value there, Value here) {
  if (there == here) return "";
  return std::string(name) + " " + std::to_string(there) + " there, " + std::to_string(here) +
         " here, ";
}

}  // namespace

DistributedSampler::DistributedSampler(std::size_t dataset_size, int num_replicas, int rank,
                                       const SamplerOptions& options)
    : num_replicas_(CheckedReplicas(num_replicas, rank)),
      rank_(static_cast<std::size_t>(rank)),
      options_(options) {
  begin(dataset_size, 0);
}

void DistributedSampler::begin(std::size_t dataset_size, std::size_t used) {
  dataset_size_ = dataset_size;
  used_ = used;
  const std::size_t left = dataset_size - used;
  num_samples_ =
      options_.drop_last ? left / num_replicas_ : (left + num_replicas_ - 1) / num_replicas_;
  position_ = 0;
  start_is_set_ = false;
  resumed_ = false;
  indices_valid_ = false;
}

void DistributedSampler::set_epoch(std::size_t epoch) {
  *chosen_ = {epoch, chosen_->times + 1};
  begin_epoch(epoch);
}

void DistributedSampler::begin_epoch(std::size_t epoch) {
  followed_ = chosen_->times;
  if (resumed_ && epoch == epoch_) return;
  epoch_ = epoch;
  begin(dataset_size_, 0);
}

void DistributedSampler::start_at(std::size_t samples) {
  if (samples > num_samples_) {
    throw ConfigError("DistributedSampler: cannot start behind sample " + std::to_string(samples) +
                      ", an epoch has " + std::to_string(num_samples_) + " samples on a rank");
  }
  position_ = samples;
  start_is_set_ = true;
}

SamplerState DistributedSampler::state(std::size_t samples) const {
  if (samples > num_samples_) {
    throw ConfigError("DistributedSampler: a rank cannot have used " + std::to_string(samples) +
                      " samples, an epoch has " + std::to_string(num_samples_));
  }
  SamplerState state;
  state.epoch = epoch_;
  state.seed = options_.seed;
  state.dataset_size = dataset_size_;
  state.shuffle = options_.shuffle;
  // The last round of an epoch may contain padding. Samples that were dropped at the end count as
  // used.
  state.consumed = samples == num_samples_ ? dataset_size_ : used_ + samples * num_replicas_;
  return state;
}

void DistributedSampler::resume(const SamplerState& state) {
  std::string differences =
      Difference("dataset_size", state.dataset_size, std::uint64_t{dataset_size_}) +
      Difference("seed", state.seed, options_.seed) +
      Difference("shuffle", state.shuffle ? 1 : 0, options_.shuffle ? 1 : 0);
  if (!differences.empty()) {
    throw ConfigError(
        "DistributedSampler: the state to resume from is of another order of samples: " +
        differences + "so what it has used cannot be told");
  }
  if (state.consumed > state.dataset_size) {
    throw ConfigError("DistributedSampler: the state to resume from has used " +
                      std::to_string(state.consumed) + " samples of a dataset of " +
                      std::to_string(state.dataset_size));
  }
  epoch_ = state.epoch;
  begin(dataset_size_, state.consumed);
  start_is_set_ = true;
  resumed_ = true;
}

const std::vector<std::size_t>& DistributedSampler::indices() {
  if (indices_valid_) return indices_;
  const torch::Tensor tensor = Order(dataset_size_, options_, epoch_);
  const auto* const order = tensor.data_ptr<std::int64_t>();
  indices_.clear();
  indices_.reserve(num_samples_);
  // After the end comes padding: the order again from its beginning, as often as needed.
  const std::size_t end = used_ + num_samples_ * num_replicas_;
  for (std::size_t i = used_ + rank_; i < end; i += num_replicas_) {
    indices_.push_back(static_cast<std::size_t>(order[i % dataset_size_]));
  }
  indices_valid_ = true;
  return indices_;
}

void DistributedSampler::reset(detail::OptionalSize new_size) {
  if (followed_ != chosen_->times) begin_epoch(chosen_->epoch);
  const std::size_t size = new_size.has_value() ? *new_size : dataset_size_;
  if (start_is_set_ && used_ > 0 && size != dataset_size_) {
    throw ConfigError("DistributedSampler: reset to a dataset of " + std::to_string(size) +
                      " samples, right after resume() in one of " + std::to_string(dataset_size_));
  }
  const std::size_t start = start_is_set_ ? position_ : 0;
  if (size != dataset_size_ || (used_ > 0 && !start_is_set_)) begin(size, 0);
  position_ = std::min(start, num_samples_);
  start_is_set_ = false;
  resumed_ = false;
}

detail::OptionalBatch DistributedSampler::next(std::size_t batch_size) {
  start_is_set_ = false;
  resumed_ = false;
  const std::vector<std::size_t>& all = indices();
  const std::size_t end = std::min(all.size(), position_ + batch_size);
  if (position_ >= end) return {};
  internal::Progress::Process().AwaitData();
  std::vector<std::size_t> batch(all.begin() + static_cast<std::ptrdiff_t>(position_),
                                 all.begin() + static_cast<std::ptrdiff_t>(end));
  position_ = end;
  return batch;
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("ddp_sampler", c10::IValue(state().to_string()));
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  c10::IValue text;
  archive.read("ddp_sampler", text);
  resume(SamplerState::from_string(text.toStringRef()));
}

std::string SamplerState::to_string() const {
  return "epoch=" + std::to_string(epoch) + " seed=" + std::to_string(seed) +
         " dataset_size=" + std::to_string(dataset_size) + " shuffle=" + (shuffle ? "1" : "0") +
         " consumed=" + std::to_string(consumed);
}

SamplerState SamplerState::from_string(const std::string& text) {
  SamplerState state;
  std::uint64_t shuffle = 0;
  const std::pair<const char*, std::uint64_t*> fields[] = {{"epoch=", &state.epoch},
                                                           {" seed=", &state.seed},
                                                           {" dataset_size=", &state.dataset_size},
                                                           {" shuffle=", &shuffle},
                                                           {" consumed=", &state.consumed}};
  const char* at = text.data();
  const char* const end = at + text.size();
  bool good = true;
  for (const auto& [name, value] : fields) {
    const std::string_view left(at, static_cast<std::size_t>(end - at));
    good = good && left.starts_with(name);
    if (!good) break;
    const auto [behind, error] = std::from_chars(at + std::strlen(name), end, *value);
    good = error == std::errc();
    at = behind;
  }
  if (!good || at != end || shuffle > 1 || state.consumed > state.dataset_size) {
    throw ConfigError("DistributedSampler: '" + text + "' is not the text of a SamplerState");
  }
  state.shuffle = shuffle == 1;
  return state;
}

}  // namespace ddp
