#include <ATen/CPUGeneratorImpl.h>
#include <ddp/distributed_sampler.h>
#include <ddp/errors.h>
#include <torch/serialize/archive.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

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

// The whole dataset in the order of an epoch. The generator is of its own: the default one is
// left alone.
std::vector<std::int64_t> Order(std::size_t dataset_size, const SamplerOptions& options,
                                std::size_t epoch) {
  const auto size = static_cast<std::int64_t>(dataset_size);
  torch::Tensor order;
  if (options.shuffle) {
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(options.seed + epoch);
    order = torch::randperm(size, generator, torch::dtype(torch::kInt64));
  } else {
    order = torch::arange(size, torch::dtype(torch::kInt64));
  }
  const auto* const first = order.data_ptr<std::int64_t>();
  return std::vector<std::int64_t>(first, first + size);
}

}  // namespace

DistributedSampler::DistributedSampler(std::size_t dataset_size, int num_replicas, int rank,
                                       const SamplerOptions& options)
    : num_replicas_(CheckedReplicas(num_replicas, rank)),
      rank_(static_cast<std::size_t>(rank)),
      options_(options) {
  resize(dataset_size);
}

void DistributedSampler::resize(std::size_t dataset_size) {
  dataset_size_ = dataset_size;
  num_samples_ = options_.drop_last ? dataset_size / num_replicas_
                                    : (dataset_size + num_replicas_ - 1) / num_replicas_;
  indices_valid_ = false;
}

void DistributedSampler::set_epoch(std::size_t epoch) {
  epoch_ = epoch;
  position_ = 0;
  start_is_set_ = false;
  indices_valid_ = false;
}

void DistributedSampler::start_at(std::size_t samples) {
  if (samples > num_samples_) {
    throw ConfigError("DistributedSampler: cannot start behind sample " + std::to_string(samples) +
                      ", an epoch has " + std::to_string(num_samples_) + " samples on a rank");
  }
  position_ = samples;
  start_is_set_ = true;
}

const std::vector<std::size_t>& DistributedSampler::indices() {
  if (indices_valid_) return indices_;
  const std::vector<std::int64_t> order = Order(dataset_size_, options_, epoch_);
  indices_.clear();
  indices_.reserve(num_samples_);
  // Behind the end, the padding: the order again from its front, as often as needed.
  for (std::size_t i = rank_; i < num_samples_ * num_replicas_; i += num_replicas_) {
    indices_.push_back(static_cast<std::size_t>(order[i % order.size()]));
  }
  indices_valid_ = true;
  return indices_;
}

void DistributedSampler::reset(detail::OptionalSize new_size) {
  if (new_size.has_value() && *new_size != dataset_size_) resize(*new_size);
  if (!start_is_set_) position_ = 0;
  start_is_set_ = false;
  position_ = std::min(position_, num_samples_);
}

detail::OptionalBatch DistributedSampler::next(std::size_t batch_size) {
  start_is_set_ = false;
  const std::vector<std::size_t>& all = indices();
  const std::size_t end = std::min(all.size(), position_ + batch_size);
  if (position_ >= end) return {};
  std::vector<std::size_t> batch(all.begin() + static_cast<std::ptrdiff_t>(position_),
                                 all.begin() + static_cast<std::ptrdiff_t>(end));
  position_ = end;
  return batch;
}

void DistributedSampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", torch::tensor(static_cast<std::int64_t>(epoch_)), /*is_buffer=*/true);
  archive.write("position", torch::tensor(static_cast<std::int64_t>(position_)),
                /*is_buffer=*/true);
}

void DistributedSampler::load(torch::serialize::InputArchive& archive) {
  torch::Tensor epoch = torch::empty({1}, torch::kInt64);
  torch::Tensor position = torch::empty({1}, torch::kInt64);
  archive.read("epoch", epoch, /*is_buffer=*/true);
  archive.read("position", position, /*is_buffer=*/true);
  set_epoch(static_cast<std::size_t>(epoch.item<std::int64_t>()));
  start_at(static_cast<std::size_t>(position.item<std::int64_t>()));
}

}  // namespace ddp
