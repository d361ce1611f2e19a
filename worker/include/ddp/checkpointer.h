// Checkpoints of a model, its optimizer, and the place in the training.
//
// One file per checkpoint, `step-000000001200.safetensors`, readable from Python with
// `safetensors.torch.load_file`. Tensors are named `model.<parameter or buffer>` and
// `optim.<parameter index>.<field>`; `__metadata__` holds (all values are strings)
//
//   ddprun_format    "1"
//   step, epoch, batch, world_size       decimal numbers; see State
//   rng, rng_cuda    state of each rank's default generator, in hex, separated by commas
//   user             a JSON object: State::user
//   xxh3             a JSON object: XXH3-64 of each tensor's bytes, 16 hex digits
//   header_xxh3      the same of the header without this entry, as JSON with sorted keys and no
//                    spaces
//
// A file appears under its name only when it is whole and on disk: it is written under a
// temporary name (`<name>.<host>-<PID namespace>-<pid>.tmp`), synced, renamed, and the folder
// synced. What a writer that was killed left half done is removed by the next save() on that host,
// or by any after a day; never while its writer runs.
#ifndef DDP_CHECKPOINTER_H_
#define DDP_CHECKPOINTER_H_

#include <ddp/context.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace ddp {

// The place in the training that a checkpoint stands for.
struct State {
  std::int64_t step = 0;                    // optimizer steps finished, in the whole training
  std::int64_t epoch = 0;                   // the epoch to go on in, from 0
  std::int64_t batch = 0;                   // batches of this rank that are finished in that epoch
  std::map<std::string, std::string> user;  // anything else the program wants back

  // Filled in by load_latest(), ignored by save().
  int world_size = 0;  // of the job that saved it
  std::string path;    // of the file, on rank 0's node
};

struct CheckpointerOptions {
  // After a save, the file just saved and the keep_last - 1 next older ones stay. Files of a higher
  // step, and those that this version cannot read, do not count and are never removed. At least 1
  // (ConfigError).
  int keep_last = 2;
};

// save() and load_latest() are collectives: all ranks call them, in the same order. An error of
// rank 0 (disk full, folder not readable) throws on every rank, and no rank hangs. One thread.
class Checkpointer {
 public:
  // Only rank 0 ever touches `directory`, so only its node needs it; save() creates it.
  // `ctx` must outlive this object.
  Checkpointer(const Context& ctx, std::string directory,
               const CheckpointerOptions& options = CheckpointerOptions());

  // Writes a checkpoint and returns its path (the same text on all ranks) when it is on disk.
  // Model and optimizer are rank 0's: DistributedDataParallel keeps the others equal. Tells the
  // agent. Throws AgreedError.
  //
  // Optimizers: SGD, Adam, AdamW, RMSprop, Adagrad. What a checkpoint holds of one is its state
  // (momentum, moments, step counts), not its options: set the learning rate yourself.
  std::string save(const State& state, const torch::nn::Module& module,
                   const torch::optim::Optimizer& optimizer);

  // Fills module and optimizer, on every rank, from the newest file that is whole, and sets the
  // default generators back; nullopt, changing nothing, if there is no file. A file that is
  // short or has a wrong hash is renamed to `<name>.corrupt`; one of an unknown format version is
  // left alone. Either is reported on rank 0's stderr, and the next older one is taken. A whole
  // file that does not fit the module or the optimizer throws AgreedError: going back to an older
  // file, or to none, would lose work in silence. A leading `module.` in its parameter names is
  // dropped.
  std::optional<State> load_latest(torch::nn::Module& module, torch::optim::Optimizer& optimizer);

 private:
  const Context& ctx_;
  const std::string directory_;
  const CheckpointerOptions options_;
};

}  // namespace ddp

#endif  // DDP_CHECKPOINTER_H_
