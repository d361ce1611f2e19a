// Which samples of a dataset are this rank's, exactly as Python's
// torch.utils.data.DistributedSampler gives them (torch/utils/data/distributed.py), and a
// torch::data sampler, so that torch::data::make_data_loader takes it.
//
// libtorch has a class of nearly the same name, torch::data::samplers::DistributedSampler
// (DistributedRandomSampler, DistributedSequentialSampler). It is another thing: it gives each
// rank a contiguous block, where Python's deals indices out one by one; it pads differently, and
// it shuffles with another generator. A job that moves from Python to C++ sees the same samples
// in the same order only with the class here.
#ifndef DDP_DISTRIBUTED_SAMPLER_H_
#define DDP_DISTRIBUTED_SAMPLER_H_

#include <torch/data/samplers/base.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ddp {

struct SamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;  // the same on all ranks
  // true: drop the tail of the dataset so that it divides evenly. false: repeat indices from the
  // front instead, as often as needed.
  bool drop_last = false;
};

namespace detail {
// libtorch's optional is c10::optional or std::optional, by version: take it from the base class.
template <template <typename...> class Optional, typename T>
Optional<std::size_t> optional_size(const Optional<T>&);
using OptionalBatch = decltype(std::declval<torch::data::samplers::Sampler<>&>().next(1));
using OptionalSize = decltype(optional_size(std::declval<OptionalBatch>()));
}  // namespace detail

// No collective; one thread at a time. Copyable.
class DistributedSampler : public torch::data::samplers::Sampler<> {
 public:
  // Throws ConfigError unless 0 <= rank < num_replicas.
  DistributedSampler(std::size_t dataset_size, int num_replicas, int rank,
                     const SamplerOptions& options = SamplerOptions());

  // Chooses the shuffle of an epoch, from its first sample on. Call it before each epoch: without
  // it every epoch has the same order.
  void set_epoch(std::size_t epoch);

  // Lets the epoch begin behind its first `samples` samples of this rank, to resume in the middle
  // of one: the next reset(), or a next() without one, starts there; the reset() after that starts
  // at the front again. Throws ConfigError if `samples` exceeds size().
  void start_at(std::size_t samples);

  // Samples of this rank in an epoch, as Python's len(); the same on all ranks.
  std::size_t size() const { return num_samples_; }
  std::size_t epoch() const { return epoch_; }
  // Samples of this rank that next() has given, or start_at() has skipped, in this epoch.
  std::size_t position() const { return position_; }

  // All indices of this rank in this epoch, in order, whatever position() is.
  const std::vector<std::size_t>& indices();

  // The interface of torch::data. reset() begins the epoch (with another dataset size, if one is
  // given); next() gives up to `batch_size` indices, or nothing when the epoch is over.
  void reset(detail::OptionalSize new_size = {}) override;
  detail::OptionalBatch next(std::size_t batch_size) override;
  void save(torch::serialize::OutputArchive& archive) const override;  // epoch and position
  void load(torch::serialize::InputArchive& archive) override;

 private:
  void resize(std::size_t dataset_size);

  // Constant after construction.
  const std::size_t num_replicas_;
  const std::size_t rank_;
  const SamplerOptions options_;

  std::size_t dataset_size_ = 0;
  std::size_t num_samples_ = 0;
  std::size_t epoch_ = 0;
  std::size_t position_ = 0;
  bool start_is_set_ = false;  // by start_at(), for the next reset()
  bool indices_valid_ = false;
  std::vector<std::size_t> indices_;
};

}  // namespace ddp

#endif  // DDP_DISTRIBUTED_SAMPLER_H_
