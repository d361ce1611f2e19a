// DistributedSampler: which samples of a dataset this rank gets. Exactly those of Python's
// torch.utils.data.DistributedSampler (torch/utils/data/distributed.py). It is a torch::data
// sampler, so torch::data::make_data_loader accepts it.
//
// Not to be confused with libtorch's torch::data::samplers::DistributedSampler
// (DistributedRandomSampler, DistributedSequentialSampler): that class gives each rank a contiguous
// block, while Python's deals indices out one by one; it also pads differently and shuffles with
// another generator.
#ifndef DDP_DISTRIBUTED_SAMPLER_H_
#define DDP_DISTRIBUTED_SAMPLER_H_

#include <torch/data/samplers/base.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ddp {

struct SamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;  // the same on all ranks
  // true: drops the tail of the dataset, so that it divides evenly. false: repeats indices from the
  // front, as often as needed.
  bool drop_last = false;
};

// A place in an epoch, equal on all ranks and valid for any number of ranks: all ranks together
// have used the first `consumed` samples of the epoch's order of the whole dataset. Save it with
// the model (State::user of a checkpoint takes its text). A job of any world size can continue from
// it.
struct SamplerState {
  std::uint64_t epoch = 0;
  std::uint64_t seed = 0;
  std::uint64_t dataset_size = 0;
  bool shuffle = true;
  std::uint64_t consumed = 0;  // at most dataset_size

  // "epoch=3 seed=17 dataset_size=60000 shuffle=1 consumed=1280". from_string() reads it, and
  // throws ConfigError for any other text.
  std::string to_string() const;
  static SamplerState from_string(const std::string& text);
};

namespace detail {
// Depending on its version, libtorch uses c10::optional or std::optional: takes the type from the
// base class.
template <template <typename...> class Optional, typename T>
Optional<std::size_t> optional_size(const Optional<T>&);
using OptionalBatch = decltype(std::declval<torch::data::samplers::Sampler<>&>().next(1));
using OptionalSize = decltype(optional_size(std::declval<OptionalBatch>()));
}  // namespace detail

// No collectives. One thread at a time for an object and its copies together. Copyable.
class DistributedSampler : public torch::data::samplers::Sampler<> {
 public:
  // Throws ConfigError unless 0 <= rank < num_replicas.
  DistributedSampler(std::size_t dataset_size, int num_replicas, int rank,
                     const SamplerOptions& options = SamplerOptions());

  // Selects the shuffle of an epoch, and its first sample. Call it before each epoch: otherwise
  // every epoch has the same order. Copies of this sampler, such as the one in a DataLoader, follow
  // at their next reset(), with which a loader begins an epoch. resume() says what the first call
  // after it does.
  void set_epoch(std::size_t epoch);

  // Skips this rank's first `samples` samples of the epoch: the next reset(), or a next() without a
  // reset(), begins there; the reset() after that begins at the front again. Throws ConfigError if
  // `samples` exceeds size(). Correct only for the world size with which the samples were counted;
  // state() and resume() are correct for any.
  void start_at(std::size_t samples);

  // The place in the epoch after every rank has used position() samples, or `samples`. Give
  // `samples` if samples are fetched before they are used, or if a DataLoader, which works on a
  // copy of its sampler, calls next(). Ranks that train in step have equal positions and so equal
  // states: saving rank 0's is enough. If this rank has used all its samples of an epoch, the epoch
  // is over for every world size. Throws ConfigError if `samples` exceeds size().
  SamplerState state() const { return state(position_); }
  SamplerState state(std::size_t samples) const;

  // Continues from `state`, which may come from a job of another world size, and that job from yet
  // another. The unused samples of the epoch's order are dealt out one by one to the present ranks,
  // like a whole epoch. Each sample of the epoch is used exactly once, except at the tail: without
  // drop_last, up to num_replicas - 1 indices from the front of the epoch's order are used again
  // (more only if the dataset has fewer samples than ranks); with drop_last, up to num_replicas - 1
  // samples are not used. With the same world size as before, the rest is exactly the rest of the
  // interrupted epoch.
  //
  // From then on size(), position(), indices() and start_at() refer to the remaining samples, until
  // the next set_epoch() or the second reset(). Before the first next() or reset(),
  // set_epoch(state.epoch) changes nothing. So a loop that begins each epoch with set_epoch(epoch)
  // continues in the middle of its first epoch.
  //
  // Throws ConfigError if the state was made with another dataset size, seed or shuffle, or has
  // used more samples than the dataset has; the text names each difference.
  void resume(const SamplerState& state);

  // Samples of this rank in an epoch, like Python's len(); equal on all ranks.
  std::size_t size() const { return num_samples_; }
  std::size_t epoch() const { return epoch_; }
  // Samples of this rank in this epoch that next() has returned or start_at() has skipped.
  std::size_t position() const { return position_; }

  // All indices of this rank in this epoch, in order, independent of position().
  const std::vector<std::size_t>& indices();

  // The interface of torch::data. reset() begins the epoch, with another dataset size if `new_size`
  // is set (ConfigError right after a resume() in the middle of an epoch). next() returns up to
  // `batch_size` indices, or nothing at the end of the epoch. save() stores state(), and load()
  // calls resume().
  void reset(detail::OptionalSize new_size = {}) override;
  detail::OptionalBatch next(std::size_t batch_size) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  // The last set_epoch() of this sampler and its copies, which share this.
  struct Chosen {
    std::size_t epoch = 0;
    std::size_t times = 0;  // number of calls
  };

  // `used`: samples of the epoch's order that earlier jobs have used.
  void begin(std::size_t dataset_size, std::size_t used);
  // The effect of set_epoch() on this sampler.
  void begin_epoch(std::size_t epoch);

  // Constant after construction.
  const std::size_t num_replicas_;
  const std::size_t rank_;
  const SamplerOptions options_;
  const std::shared_ptr<Chosen> chosen_ = std::make_shared<Chosen>();

  std::size_t followed_ = 0;  // the chosen_->times that this sampler has applied
  std::size_t dataset_size_ = 0;
  std::size_t used_ = 0;  // samples of this epoch's order that earlier jobs used
  std::size_t num_samples_ = 0;
  std::size_t epoch_ = 0;
  std::size_t position_ = 0;
  bool start_is_set_ = false;  // by start_at() or resume(), for the next reset()
  bool resumed_ = false;       // resume() was the last call that matters
  bool indices_valid_ = false;
  std::vector<std::size_t> indices_;
};

}  // namespace ddp

#endif  // DDP_DISTRIBUTED_SAMPLER_H_
