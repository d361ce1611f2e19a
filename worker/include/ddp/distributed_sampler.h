// Which samples of a dataset are this rank's: exactly those of Python's
// torch.utils.data.DistributedSampler (torch/utils/data/distributed.py). It is a torch::data
// sampler, so torch::data::make_data_loader takes it.
//
// Do not confuse it with libtorch's torch::data::samplers::DistributedSampler
// (DistributedRandomSampler, DistributedSequentialSampler). That class gives each rank a contiguous
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
  // true: drop the tail of the dataset so that it divides evenly. false: repeat indices from the
  // front instead, as often as needed.
  bool drop_last = false;
};

// A place in an epoch, the same on all ranks for any number of ranks: of the epoch's order of the
// whole dataset, all ranks together have used the first `consumed` samples. Save it with the model
// (State::user of a checkpoint takes its text). A job of any world size can continue from it.
struct SamplerState {
  std::uint64_t epoch = 0;
  std::uint64_t seed = 0;
  std::uint64_t dataset_size = 0;
  bool shuffle = true;
  std::uint64_t consumed = 0;  // at most dataset_size

  // "epoch=3 seed=17 dataset_size=60000 shuffle=1 consumed=1280", and back. from_string() throws
  // ConfigError for any other text.
  std::string to_string() const;
  static SamplerState from_string(const std::string& text);
};

namespace detail {
// libtorch's optional is c10::optional or std::optional, by version: take it from the base class.
template <template <typename...> class Optional, typename T>
Optional<std::size_t> optional_size(const Optional<T>&);
using OptionalBatch = decltype(std::declval<torch::data::samplers::Sampler<>&>().next(1));
using OptionalSize = decltype(optional_size(std::declval<OptionalBatch>()));
}  // namespace detail

// No collective; one thread at a time, copies included. Copyable.
class DistributedSampler : public torch::data::samplers::Sampler<> {
 public:
  // Throws ConfigError unless 0 <= rank < num_replicas.
  DistributedSampler(std::size_t dataset_size, int num_replicas, int rank,
                     const SamplerOptions& options = SamplerOptions());

  // Chooses the shuffle of an epoch, from its first sample on. Call it before each epoch: otherwise
  // every epoch has the same order. For the call right after resume() see there. Copies of this
  // sampler, such as the one in a DataLoader, follow at their next reset(), with which a loader
  // begins an epoch.
  void set_epoch(std::size_t epoch);

  // Skips this rank's first `samples` samples of the epoch, to resume in its middle: the next
  // reset(), or a next() without one, starts there; the reset() after that starts at the front
  // again. Throws ConfigError if `samples` exceeds size(). Right only for the world size that
  // counted those samples; state() and resume() are right for any.
  void start_at(std::size_t samples);

  // The place in the epoch after every rank has used position() samples, or `samples` of its own.
  // Give `samples` if samples are fetched before they are used, or if a DataLoader, which works on
  // a copy of its sampler, calls next(). Ranks that train in step are at the same position, so all
  // have the same state: saving rank 0's is enough. If this rank has used all its samples of an
  // epoch, the epoch is over for every world size. Throws ConfigError if `samples` exceeds size().
  SamplerState state() const { return state(position_); }
  SamplerState state(std::size_t samples) const;

  // Continues from `state`, which may come from a job of another world size, and that one from yet
  // another. The unused samples of the epoch's order are dealt out one by one to the current ranks,
  // by the same rule as a whole epoch. Each sample of the epoch is used exactly once, except at the
  // tail: without drop_last, up to num_replicas - 1 indices from the front of the epoch's order are
  // used again (more only if the dataset has fewer samples than ranks); with drop_last, up to
  // num_replicas - 1 samples are not used. With the same world size as before, the rest is exactly
  // what the epoch would have given.
  //
  // From then on "the epoch" means its remaining samples, for size(), position(), indices() and
  // start_at(), until the next set_epoch() or the second reset(). Before the first next() or
  // reset(), set_epoch(state.epoch) changes nothing. So a loop that begins each epoch with
  // set_epoch(epoch) continues in the middle of its first epoch.
  //
  // Throws ConfigError if the state was made with another dataset size, seed or shuffle, and names
  // each.
  void resume(const SamplerState& state);

  // Samples of this rank in an epoch, as Python's len(); the same on all ranks.
  std::size_t size() const { return num_samples_; }
  std::size_t epoch() const { return epoch_; }
  // Samples of this rank in this epoch that next() has returned or start_at() has skipped.
  std::size_t position() const { return position_; }

  // All indices of this rank in this epoch, in order, whatever position() is.
  const std::vector<std::size_t>& indices();

  // The interface of torch::data. reset() begins the epoch (with another dataset size, if one is
  // given: ConfigError right after resume()); next() gives up to `batch_size` indices, or nothing
  // when the epoch is over. save() and load() are state() and resume().
  void reset(detail::OptionalSize new_size = {}) override;
  detail::OptionalBatch next(std::size_t batch_size) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  // What set_epoch() said last, of this sampler and its copies.
  struct Chosen {
    std::size_t epoch = 0;
    std::size_t times = 0;  // it was said
  };

  // `used`: samples of the epoch's order that earlier jobs have used.
  void begin(std::size_t dataset_size, std::size_t used);
  // What set_epoch() says to one of them.
  void begin_epoch(std::size_t epoch);

  // Constant after construction.
  const std::size_t num_replicas_;
  const std::size_t rank_;
  const SamplerOptions options_;
  const std::shared_ptr<Chosen> chosen_ = std::make_shared<Chosen>();

  std::size_t followed_ = 0;  // chosen_->times as this one has followed it
  std::size_t dataset_size_ = 0;
  std::size_t used_ = 0;  // by earlier jobs, of this epoch's order
  std::size_t num_samples_ = 0;
  std::size_t epoch_ = 0;
  std::size_t position_ = 0;
  bool start_is_set_ = false;  // by start_at() or resume(), for the next reset()
  bool resumed_ = false;       // by resume(), and nothing has happened since
  bool indices_valid_ = false;
  std::vector<std::size_t> indices_;
};

}  // namespace ddp

#endif  // DDP_DISTRIBUTED_SAMPLER_H_
