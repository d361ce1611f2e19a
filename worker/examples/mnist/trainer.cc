#include "worker/examples/mnist/trainer.h"

#include <ddp/ddp.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/examples/common/progress.h"
#include "worker/examples/common/step_log.h"
#include "worker/examples/mnist/dataset.h"
#include "worker/examples/mnist/net.h"

namespace mnist {
namespace {

constexpr std::int64_t kEvaluationBatch = 250;

// Everything that may be wrong on one rank alone, before the first collective that needs it.
struct Inputs {
  Dataset train;
  Dataset test;
  std::unique_ptr<example::StepLog> log;
};

Inputs LoadInputs(const ddp::Context& ctx, const Flags& flags) {
  Inputs inputs;
  std::string problem;
  try {
    inputs.train = Load(flags.data, "train", flags.limit_train);
    inputs.test = Load(flags.data, "t10k", 0);
    inputs.log = std::make_unique<example::StepLog>(ctx, flags.step_log, flags.trace_samples);
  } catch (const std::exception& e) {
    problem = e.what();
  }
  ddp::throw_if_any_failed(ctx, problem);
  return inputs;
}

class Trainer {
 public:
  Trainer(const ddp::Context& ctx, const Flags& flags, const Inputs& inputs)
      : ctx_(ctx),
        flags_(flags),
        inputs_(inputs),
        model_(ctx, MakeNet(), ModelOptions()),
        optimizer_(model_->parameters(), torch::optim::AdamOptions(flags.lr)),
        sampler_(static_cast<std::size_t>(inputs.train.size()), ctx.world_size(), ctx.rank(),
                 SamplerOptions()),
        steps_per_epoch_(StepsOf(sampler_.size())) {
    // From here on dropout is to differ between ranks.
    ddp::seed_everything(flags.seed, static_cast<std::uint64_t>(ctx.rank()) + 1);
    if (flags.checkpoint_every == 0) return;
    ddp::CheckpointerOptions options;
    options.save_every = flags.checkpoint_dir.empty() ? 0 : flags.checkpoint_every;
    options.snapshot_every = flags.snapshot_every;
    checkpointer_.emplace(ctx, flags.checkpoint_dir, options);
  }

  void Run() {
    Resume();
    ctx_.report_phase("training");
    progress_.emplace(ctx_, StepsLeft(), std::int64_t{flags_.batch_size} * ctx_.world_size());
    while (state_.epoch < flags_.epochs && !Finished()) RunEpoch();
    SaveTheEnd();
    ctx_.report_phase("evaluating");
    const double accuracy = Evaluate();
    if (ctx_.rank() == 0) std::printf("test accuracy %.4f\n", accuracy);
  }

 private:
  std::shared_ptr<Net> MakeNet() const {
    ddp::seed_everything(flags_.seed);
    auto net = std::make_shared<Net>();
    net->to(ctx_.device());
    return net;
  }

  static ddp::DataParallelOptions ModelOptions() {
    ddp::DataParallelOptions options;
    options.gradient_as_bucket_view = true;
    return options;
  }

  ddp::SamplerOptions SamplerOptions() const {
    ddp::SamplerOptions options;
    options.seed = flags_.seed;
    return options;
  }

  ddp::CheckpointParts Parts() { return ddp::CheckpointParts(model_, optimizer_).with(sampler_); }

  bool Finished() const { return flags_.max_steps > 0 && state_.step >= flags_.max_steps; }

  std::int64_t StepsOf(std::size_t samples) const {
    return (static_cast<std::int64_t>(samples) + flags_.batch_size - 1) / flags_.batch_size;
  }

  // Right after Resume(): the sampler's size is what is left of this epoch.
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
    model_->train();
    while (!Finished()) {
      SetLearningRate();
      const auto indices = sampler_.next(static_cast<std::size_t>(flags_.batch_size));
      if (!indices) {
        FinishEpoch();
        return;
      }
      Step(*indices);
    }
  }

  void FinishEpoch() {
    ++state_.epoch;
    state_.batch = 0;
    sampler_.set_epoch(static_cast<std::size_t>(state_.epoch));
    if (state_.epoch == flags_.epochs) return;  // the final evaluation is about to follow
    const double accuracy = Evaluate();
    if (ctx_.rank() != 0) return;
    std::printf("epoch %lld/%d done at step %lld  accuracy %.4f on the test set\n",
                static_cast<long long>(state_.epoch), flags_.epochs,
                static_cast<long long>(state_.step), accuracy);
    std::fflush(stdout);
  }

  void Step(const std::vector<std::size_t>& indices) {
    const Batch batch = inputs_.train.Get(indices, ctx_.device());
    model_.zero_grad();
    const torch::Tensor loss = torch::nll_loss(model_(batch.images), batch.labels);
    loss.backward();
    optimizer_.step();

    ++state_.step;
    ++state_.batch;
    const double value = loss.item<double>();
    inputs_.log->Add(state_.epoch, state_.step, indices, value);
    if (checkpointer_) {
      checkpointer_->step(state_, Parts());
    } else {
      ctx_.report_step(state_.step);
    }
    progress_->Advance(state_.step, state_.epoch, value);
  }

  // A function of the place in the training alone, so that it needs not be saved.
  void SetLearningRate() {
    const ddp::SamplerState place = sampler_.state();
    const double epochs_done =
        static_cast<double>(state_.epoch) +
        static_cast<double>(place.consumed) / static_cast<double>(place.dataset_size);
    const double lr = flags_.lr * (1 - epochs_done / flags_.epochs);
    for (auto& group : optimizer_.param_groups()) group.options().set_lr(lr);
  }

  // So that a job that is started again ends at once.
  void SaveTheEnd() {
    if (!checkpointer_ || flags_.checkpoint_dir.empty()) return;
    const bool saved = state_.step % flags_.checkpoint_every == 0 && sampler_.state().consumed > 0;
    if (!saved && state_.step != resumed_step_) checkpointer_->save(state_, Parts());
  }

  // The share of the test images that the model gets right. Rank r looks at images r, r +
  // world_size, ...: each image once, whatever the world size.
  double Evaluate() {
    model_.sync_buffers();
    model_->eval();
    const torch::NoGradGuard no_grad;
    std::int64_t seen = 0;
    std::int64_t correct = 0;
    std::vector<std::size_t> indices;
    const auto flush = [&] {
      if (indices.empty()) return;
      const Batch batch = inputs_.test.Get(indices, ctx_.device());
      const torch::Tensor digits = model_.module().forward(batch.images).argmax(1);
      correct += digits.eq(batch.labels).sum().item<std::int64_t>();
      seen += static_cast<std::int64_t>(indices.size());
      indices.clear();
    };
    for (std::int64_t i = ctx_.rank(); i < inputs_.test.size(); i += ctx_.world_size()) {
      indices.push_back(static_cast<std::size_t>(i));
      if (std::ssize(indices) == kEvaluationBatch) flush();
    }
    flush();
    seen = ddp::all_reduce_sum(ctx_, seen);
    correct = ddp::all_reduce_sum(ctx_, correct);
    TORCH_CHECK(seen == inputs_.test.size(), "evaluated ", seen, " test images of ",
                inputs_.test.size());
    return static_cast<double>(correct) / static_cast<double>(seen);
  }

  // Constant after construction; the references are Train()'s, and outlive this object.
  const ddp::Context& ctx_;
  const Flags& flags_;
  const Inputs& inputs_;

  ddp::DistributedDataParallel<Net> model_;
  torch::optim::Adam optimizer_;
  ddp::DistributedSampler sampler_;
  const std::int64_t steps_per_epoch_;
  std::optional<ddp::Checkpointer> checkpointer_;
  std::optional<example::Progress> progress_;

  ddp::State state_;
  std::int64_t resumed_step_ = 0;
};

}  // namespace

int Train(const Flags& flags) {
  ddp::Options options;
  options.backend = flags.backend;
  options.device = flags.device;
  const ddp::Context ctx = ddp::init(options);
  ctx.report_phase("loading data");
  const Inputs inputs = LoadInputs(ctx, flags);
  if (ctx.rank() == 0) {
    std::printf("training on %lld images with %d workers over %s on %s, %d per batch\n",
                static_cast<long long>(inputs.train.size()), ctx.world_size(),
                ctx.backend().c_str(), ctx.device().str().c_str(), flags.batch_size);
    std::fflush(stdout);
  }
  Trainer(ctx, flags, inputs).Run();
  return 0;
}

}  // namespace mnist
