// The training of every example: it begins with the newest state, goes epoch by epoch over a
// sampler, keeps checkpoints, logs and progress, and ends with an evaluation. What an example adds
// is a Task.
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

// What one example trains, and how. Train() calls it, on its own thread; each rank has one.
class Task {
 public:
  virtual ~Task() = default;

  // Model and optimizer: the same ones each time.
  virtual ddp::CheckpointParts Parts() = 0;
  // For the next step, the one after `step`. A function of the place in the training alone, so that
  // it needs not be saved. `epochs`: those that are over, and the part of the one under way.
  virtual double LearningRate(double epochs, std::int64_t step) const = 0;
  // One step of training, on these samples. Returns this rank's loss.
  virtual double Step(const std::vector<std::size_t>& samples) = 0;
  // How good the model is: the same on all ranks. A collective; leaves the model ready for
  // training.
  virtual double Evaluate() = 0;
  // The same for people: "accuracy 0.9700 on the test set".
  virtual std::string Describe(double result) const = 0;
};

// How to join the job, as the flags say.
ddp::Options OptionsOf(const TrainingFlags& flags);

// Calls `load`, which reads what the training needs. Throws on every rank if it throws on one. A
// collective.
void LoadOnEveryRank(const ddp::Context& ctx, const std::function<void()>& load);

// A net of these options on this rank's device, with the same weights on every rank.
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

// Trains until --epochs or --max-steps are done, and returns the last evaluation. `samples`: in the
// training set; `samples_per_step`: of one rank. `log` and `task` outlive the call. A collective.
double Train(const ddp::Context& ctx, const TrainingFlags& flags, std::int64_t samples,
             std::int64_t samples_per_step, StepLog* log, Task* task);

// Calls `use` with batches of this rank's share of `size` samples. Rank r has r, r + world_size,
// ...: each sample is of one rank, whatever the world size.
void ForEachBatch(const ddp::Context& ctx, std::int64_t size, std::size_t batch_size,
                  const std::function<void(const std::vector<std::size_t>&)>& use);

}  // namespace example

#endif  // DDPRUN_WORKER_EXAMPLES_COMMON_TRAINING_H_
