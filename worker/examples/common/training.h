// The training loop of every example. It begins with the newest state, runs over the data epoch by
// epoch, saves checkpoints, logs, reports progress, and ends with an evaluation. Each example adds
// a Task.
#ifndef DDPRUN_WORKER_EXAMPLES_COMMON_TRAINING_H_
#define DDPRUN_WORKER_EXAMPLES_COMMON_TRAINING_H_

#include <ddp/ddp.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "worker/examples/common/flags.h"
#include "worker/examples/common/step_log.h"

namespace example {

// The model of an example and its training step. Each rank has one. Train() calls it on its own
// thread.
class Task {
 public:
  virtual ~Task() = default;

  // Model and optimizer. Each call returns the same objects.
  virtual ddp::CheckpointParts Parts() = 0;
  // The learning rate for the step after `step`. It depends only on the place in the training, so
  // no checkpoint needs it. `epochs` is the number of finished epochs plus the fraction of the
  // current one.
  virtual double LearningRate(double epochs, std::int64_t step) const = 0;
  // Trains one step on these samples. Returns this rank's loss.
  virtual double Step(const std::vector<std::size_t>& samples) = 0;
  // The quality of the model; the same on all ranks. A collective. Leaves the model ready for
  // training.
  virtual double Evaluate() = 0;
  // The result of Evaluate() for people, for example "accuracy 0.9700 on the test set".
  virtual std::string Describe(double result) const = 0;
};

// Makes the options of ddp::init() from the flags.
ddp::Options OptionsOf(const TrainingFlags& flags);

// Calls `load`, which reads the data of the training. If it throws on one rank, throws on every
// rank. A collective.
void LoadOnEveryRank(const ddp::Context& ctx, const std::function<void()>& load);

// Makes a net with these options on this rank's device, with the same weights on every rank.
template <typename Net, typename... Options>
ddp::DistributedDataParallel<Net> MakeModel(const ddp::Context& ctx, std::uint64_t seed,
                                            const Options&... options) {
  ddp::seed_everything(seed);
  auto net = std::make_shared<Net>(options...);
  net->to(ctx.device());
  ddp::DataParallelOptions parallel;
  parallel.gradient_as_bucket_view = true;
  return {ctx, std::move(net), parallel};
}

// Trains until --epochs or --max-steps are done, and returns the last evaluation. A collective.
// `samples` is the size of the training set; `samples_per_step` counts one rank's samples. `log`
// and `task` must outlive the call.
double Train(const ddp::Context& ctx, const TrainingFlags& flags, std::int64_t samples,
             std::int64_t samples_per_step, StepLog* log, Task* task);

// Calls `use` with batches of this rank's share of `size` samples. Rank r gets r, r + world_size,
// and so on. So for any world size each sample belongs to exactly one rank.
void ForEachBatch(const ddp::Context& ctx, std::int64_t size, std::size_t batch_size,
                  const std::function<void(const std::vector<std::size_t>&)>& use);

}  // namespace example

#endif  // DDPRUN_WORKER_EXAMPLES_COMMON_TRAINING_H_
