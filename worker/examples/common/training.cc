#include "worker/examples/common/training.h"

#include <ddp/ddp.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "worker/examples/common/progress.h"

namespace example {
namespace {

class Training {
 public:
  Training(const ddp::Context& ctx, const TrainingFlags& flags, std::int64_t samples,
           std::int64_t samples_per_step, StepLog* log, Task* task)
      : ctx_(ctx),
        flags_(flags),
        samples_per_step_(samples_per_step),
        log_(log),
        task_(task),
        sampler_(static_cast<std::size_t>(samples), ctx.world_size(), ctx.rank(),
                 SamplerOptions(flags)),
        steps_per_epoch_(StepsOf(sampler_.size())) {
    // From here on, each rank has its own dropout.
    ddp::seed_everything(flags.seed, static_cast<std::uint64_t>(ctx.rank()) + 1);
    if (flags.checkpoint_every == 0) return;
    ddp::CheckpointerOptions options;
    options.save_every = flags.checkpoint_dir.empty() ? 0 : flags.checkpoint_every;
    options.snapshot_every = flags.snapshot_every;
    options.share_each_step = flags.share_each_step;
    checkpointer_.emplace(ctx, flags.checkpoint_dir, options);
  }

  double Run() {
    Resume();
    ctx_.report_phase("training");
    progress_.emplace(ctx_, StepsLeft(), samples_per_step_ * ctx_.world_size());
    while (state_.epoch < flags_.epochs && !Finished()) RunEpoch();
    SaveTheEnd();
    return Evaluate();
  }

 private:
  static ddp::SamplerOptions SamplerOptions(const TrainingFlags& flags) {
    ddp::SamplerOptions options;
    options.seed = flags.seed;
    return options;
  }

  ddp::CheckpointParts Parts() { return task_->Parts().with(sampler_); }

  bool Finished() const { return flags_.max_steps > 0 && state_.step >= flags_.max_steps; }

  std::int64_t StepsOf(std::size_t samples) const {
    return (static_cast<std::int64_t>(samples) + samples_per_step_ - 1) / samples_per_step_;
  }

  // Call it right after Resume(), when the size of the sampler is the rest of this epoch.
  std::int64_t StepsLeft() const {
    if (state_.epoch >= flags_.epochs) return 0;
    const std::int64_t left =
        StepsOf(sampler_.size()) + (flags_.epochs - state_.epoch - 1) * steps_per_epoch_;
    return flags_.max_steps > 0 ? std::min(left, flags_.max_steps - state_.step) : left;
  }

  void Resume() {
    if (!checkpointer_) return;
    const std::optional<ddp::State> found = checkpointer_->load_latest(Parts());
    if (!found) return;
    state_ = *found;
    resumed_step_ = state_.step;
    if (ctx_.rank() == 0) {
      std::printf("resumed from step %lld (%s)\n", static_cast<long long>(state_.step),
                  state_.path.c_str());
      std::fflush(stdout);
    }
  }

  void RunEpoch() {
    while (!Finished()) {
      SetLearningRate();
      const auto samples = sampler_.next(static_cast<std::size_t>(samples_per_step_));
      if (!samples) {
        FinishEpoch();
        return;
      }
      Step(*samples);
    }
  }

  void FinishEpoch() {
    ++state_.epoch;
    state_.batch = 0;
    sampler_.set_epoch(static_cast<std::size_t>(state_.epoch));
    if (state_.epoch == flags_.epochs) return;  // the final evaluation follows
    const double result = Evaluate();
    if (ctx_.rank() != 0) return;
    std::printf("epoch %lld/%d done at step %lld  %s\n", static_cast<long long>(state_.epoch),
                flags_.epochs, static_cast<long long>(state_.step),
                task_->Describe(result).c_str());
    std::fflush(stdout);
  }

  double Evaluate() {
    const ddp::Phase phase(ctx_, "evaluation");
    return task_->Evaluate();
  }

  void Step(const std::vector<std::size_t>& samples) {
    const double loss = task_->Step(samples);
    ++state_.step;
    ++state_.batch;
    log_->Add(state_.epoch, state_.step, samples, loss);
    if (checkpointer_) {
      checkpointer_->step(state_, Parts());
    } else {
      ctx_.report_step(state_.step);
    }
    progress_->Advance(state_.step, state_.epoch, loss);
  }

  void SetLearningRate() {
    const ddp::SamplerState place = sampler_.state();
    const double epochs =
        static_cast<double>(state_.epoch) +
        static_cast<double>(place.consumed) / static_cast<double>(place.dataset_size);
    const double lr = task_->LearningRate(epochs, state_.step);
    const ddp::CheckpointParts parts = task_->Parts();
    for (auto& group : parts.optimizer().param_groups()) group.options().set_lr(lr);
  }

  // Saves the end of the training, so that a job that is started again ends at once.
  void SaveTheEnd() {
    if (!checkpointer_ || flags_.checkpoint_dir.empty()) return;
    const bool saved = state_.step % flags_.checkpoint_every == 0 && sampler_.state().consumed > 0;
    if (!saved && state_.step != resumed_step_) checkpointer_->save(state_, Parts());
  }

  // Constant after construction. The references belong to the caller of Train(), and must outlive
  // this object.
  const ddp::Context& ctx_;
  const TrainingFlags& flags_;
  const std::int64_t samples_per_step_;
  StepLog* const log_;
  Task* const task_;

  ddp::DistributedSampler sampler_;
  const std::int64_t steps_per_epoch_;
  std::optional<ddp::Checkpointer> checkpointer_;
  std::optional<Progress> progress_;

  ddp::State state_;
  std::int64_t resumed_step_ = 0;
};

}  // namespace

ddp::Options OptionsOf(const TrainingFlags& flags) {
  ddp::Options options;
  options.backend = flags.backend;
  options.device = flags.device;
  return options;
}

void LoadOnEveryRank(const ddp::Context& ctx, const std::function<void()>& load) {
  ctx.report_phase("loading data");
  std::string problem;
  try {
    load();
  } catch (const std::exception& e) {
    problem = e.what();
  }
  ddp::throw_if_any_failed(ctx, problem);
}

double Train(const ddp::Context& ctx, const TrainingFlags& flags, std::int64_t samples,
             std::int64_t samples_per_step, StepLog* log, Task* task) {
  return Training(ctx, flags, samples, samples_per_step, log, task).Run();
}

void ForEachBatch(const ddp::Context& ctx, std::int64_t size, std::size_t batch_size,
                  const std::function<void(const std::vector<std::size_t>&)>& use) {
  std::vector<std::size_t> batch;
  for (std::int64_t i = ctx.rank(); i < size; i += ctx.world_size()) {
    batch.push_back(static_cast<std::size_t>(i));
    if (batch.size() == batch_size) use(std::exchange(batch, {}));
  }
  if (!batch.empty()) use(batch);
}

}  // namespace example
