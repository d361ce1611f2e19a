// DistributedSampler selects the samples of a dataset that this rank uses. It gives exactly the
// indices of Python's torch.utils.data.DistributedSampler (torch/utils/data/distributed.py). It is
// a torch::data sampler, so torch::data::make_data_loader accepts it.
//
// libtorch has a class of the same name, torch::data::samplers::DistributedSampler
// (DistributedRandomSampler, DistributedSequentialSampler). That class gives other indices: each
// rank gets a contiguous block, while here the ranks take indices one by one in turn. It also pads
// in another way and shuffles with another generator.
//
// Words used here: the *order* of an epoch is the (shuffled) sequence of all indices of the
// dataset. It is equal on all ranks. All ranks together use it from its front to its end.
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
  std::uint64_t seed = 0;  // must be the same on all ranks
  // What happens if the number of samples is not a multiple of the number of ranks. true: the last
  // samples of the order are not used. false: indices from the front of the order are used again,
  // as often as needed. So all ranks always get equally many samples.
  bool drop_last = false;
};

// A place in an epoch. It says that all ranks together have used the first `consumed` samples of
// the epoch's order. It is equal on all ranks, and a job of any world size can continue from it.
// CheckpointParts::with(sampler) saves it in a checkpoint. A program may also put the text of
// to_string() into State::user.
struct SamplerState {
  std::uint64_t epoch = 0;
  std::uint64_t seed = 0;
  std::uint64_t dataset_size = 0;  // in samples
  bool shuffle = true;
  std::uint64_t consumed = 0;  // in samples; at most dataset_size

  // For example "epoch=3 seed=17 dataset_size=60000 shuffle=1 consumed=1280". from_string() reads
  // such a text, and throws ConfigError for any other text.
  std::string to_string() const;
  static SamplerState from_string(const std::string& text);
};

namespace detail {
// libtorch uses c10::optional or std::optional, depending on its version. These declarations take
// the type from the base class.
template <template <typename...> class Optional, typename T>
Optional<std::size_t> optional_size(const Optional<T>&);
using OptionalBatch = decltype(std::declval<torch::data::samplers::Sampler<>&>().next(1));
using OptionalSize = decltype(optional_size(std::declval<OptionalBatch>()));
}  // namespace detail

// No function is a collective. Copyable. Only one thread at a time may use an object or any of its
// copies.
class DistributedSampler : public torch::data::samplers::Sampler<> {
 public:
  // `dataset_size` is the number of samples in the whole dataset, `num_replicas` the number of
  // ranks. Throws ConfigError unless 0 <= rank < num_replicas.
  DistributedSampler(std::size_t dataset_size, int num_replicas, int rank,
                     const SamplerOptions& options = SamplerOptions());

  // Goes to the first sample of `epoch`, and selects the order of that epoch. Call it before each
  // epoch: otherwise every epoch has the same order. A copy of this sampler, for example the copy
  // in a DataLoader, changes to the new epoch at its next reset(). A loader calls reset() when it
  // begins an epoch. The first set_epoch() after resume() is special: see resume().
  void set_epoch(std::size_t epoch);

  // Skips this rank's first `samples` samples of the epoch once. It has an effect on the next call
  // of reset(), or of next() if that comes first. A later reset() begins at the front again.
  //
  // Use it only if the world size is the same as when the samples were counted. state() and
  // resume() are correct for any world size. Throws ConfigError if `samples` exceeds size().
  void start_at(std::size_t samples);

  // The place in the epoch at which every rank has used `samples` samples of the epoch. Without an
  // argument, `samples` is position(). If all ranks have made the same number of steps, their
  // positions and states are equal, so it is enough to save the state of rank 0.
  //
  // Pass `samples` (the number that this rank has really used) in two cases: the program fetches
  // samples before it uses them, or a DataLoader calls next(), because a loader works on a copy of
  // its sampler. If `samples` is size(), the state says that the epoch is over. A job of another
  // world size understands it in the same way. Throws ConfigError if `samples` exceeds size().
  SamplerState state() const { return state(position_); }
  SamplerState state(std::size_t samples) const;

  // Continues in the middle of an epoch, at the place `state`. The state may come from a job of
  // another world size. That job may have resumed from a state too.
  //
  // The ranks of this job take the unused samples one by one in turn, as in a whole epoch. So each
  // sample of the epoch is used exactly once, except at the end of the order: with drop_last, up to
  // num_replicas - 1 samples are not used. Without drop_last, up to num_replicas - 1 indices from
  // the front of the order are used again. If the world size has not changed, each rank gets
  // exactly the rest of its samples of the interrupted epoch.
  //
  // After resume(), size(), position(), indices() and start_at() refer to the remaining samples
  // only. The first reset() after resume() begins the remaining samples. The next reset(), or
  // set_epoch(), begins a whole epoch. Exceptions:
  // - If next() comes first, it returns remaining samples, and the reset() after it begins a whole
  //   epoch.
  // - A reset() right after start_at() stays in the remaining samples.
  // - set_epoch(epoch) with the epoch of `state`, before the first next() or reset(), changes
  //   nothing. So a loop that begins each epoch with set_epoch(epoch) continues in the middle of
  //   its first epoch.
  //
  // Throws ConfigError if the state was made with another dataset size, seed or shuffle. The text
  // names each difference. Also throws it if the state has used more samples than the dataset has.
  void resume(const SamplerState& state);

  // The number of samples of each rank in this epoch, like Python's len(). Equal on all ranks.
  std::size_t size() const { return num_samples_; }
  std::size_t epoch() const { return epoch_; }
  // The number of samples of this rank in this epoch that next() has returned or start_at() has
  // skipped.
  std::size_t position() const { return position_; }

  // All indices of this rank in this epoch, in the order in which next() returns them. Does not
  // depend on position(). The reference is valid until the next call of a function that is not
  // const.
  const std::vector<std::size_t>& indices();

  // The interface of torch::data. reset() begins the epoch. If `new_size` is set, the dataset has
  // that size from then on; directly after a resume() in the middle of an epoch, another size
  // throws ConfigError. next() returns up to `batch_size` indices, or nothing at the end of the
  // epoch. save() stores state(). load() calls resume() with the stored state.
  void reset(detail::OptionalSize new_size = {}) override;
  detail::OptionalBatch next(std::size_t batch_size) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  // The last set_epoch() of this sampler and its copies. They share this object.
  struct Chosen {
    std::size_t epoch = 0;
    std::size_t times = 0;  // number of calls
  };

  // `used`: the number of samples of the epoch's order that earlier jobs have used.
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
  std::size_t used_ = 0;  // number of samples of this epoch's order that earlier jobs used
  std::size_t num_samples_ = 0;
  std::size_t epoch_ = 0;
  std::size_t position_ = 0;
  bool start_is_set_ = false;  // by start_at() or resume(), for the next reset()
  bool resumed_ = false;       // no next(), reset() or other epoch since resume()
  bool indices_valid_ = false;
  std::vector<std::size_t> indices_;
};

}  // namespace ddp

#endif  // DDP_DISTRIBUTED_SAMPLER_H_
