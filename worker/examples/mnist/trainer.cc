#include "worker/examples/mnist/trainer.h"

#include <ddp/ddp.h>
#include <torch/optim/adam.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "worker/examples/common/step_log.h"
#include "worker/examples/common/training.h"
#include "worker/examples/mnist/dataset.h"
#include "worker/examples/mnist/net.h"

namespace mnist {
namespace {

constexpr std::size_t kEvaluationBatch = 250;

class Classification final : public example::Task {
 public:
  Classification(const ddp::Context& ctx, const Flags& flags, const Dataset& train,
                 const Dataset& test)
      : ctx_(ctx),
        flags_(flags),
        train_(train),
        test_(test),
        model_(example::MakeModel<Net>(ctx, flags.seed)),
        optimizer_(model_->parameters(), torch::optim::AdamOptions(flags.lr)) {}

  ddp::CheckpointParts Parts() override { return {model_, optimizer_}; }

  double LearningRate(double epochs, std::int64_t) const override {
    return flags_.lr * (1 - epochs / flags_.epochs);
  }

  double Step(const std::vector<std::size_t>& samples) override {
    const Batch batch = train_.Get(samples, ctx_.device());
    model_.zero_grad();
    const torch::Tensor loss = torch::nll_loss(model_(batch.images), batch.labels);
    loss.backward();
    const ddp::OptimizerStep in_step(ctx_);
    optimizer_.step();
    return loss.item<double>();
  }

  // The share of test images that the model classifies correctly, over all ranks.
  double Evaluate() override {
    model_.sync_buffers();
    model_->eval();
    const torch::NoGradGuard no_grad;
    std::int64_t seen = 0;
    std::int64_t correct = 0;
    example::ForEachBatch(ctx_, test_.size(), kEvaluationBatch, [&](const auto& samples) {
      const Batch batch = test_.Get(samples, ctx_.device());
      const torch::Tensor digits = model_.module().forward(batch.images).argmax(1);
      correct += digits.eq(batch.labels).sum().template item<std::int64_t>();
      seen += std::ssize(samples);
    });
    model_->train();
    seen = ddp::all_reduce_sum(ctx_, seen);
    correct = ddp::all_reduce_sum(ctx_, correct);
    TORCH_CHECK(seen == test_.size(), "evaluated ", seen, " test images of ", test_.size());
    return static_cast<double>(correct) / static_cast<double>(seen);
  }

  std::string Describe(double accuracy) const override {
    char text[64];
    std::snprintf(text, sizeof(text), "accuracy %.4f on the test set", accuracy);
    return text;
  }

 private:
  // Owned by the caller. They must outlive this object.
  const ddp::Context& ctx_;
  const Flags& flags_;
  const Dataset& train_;
  const Dataset& test_;

  ddp::DistributedDataParallel<Net> model_;
  torch::optim::Adam optimizer_;
};

}  // namespace

namespace {

// The data outlives a generation of the job, so it is read only once.
struct Images {
  Dataset train;
  Dataset test;
};

int TrainInOneGeneration(const ddp::Context& ctx, const Flags& flags,
                         std::optional<Images>* images) {
  std::optional<example::StepLog> log;
  example::LoadOnEveryRank(ctx, [&] {
    if (!*images) {
      images->emplace(
          Images{Load(flags.data, "train", flags.limit_train), Load(flags.data, "t10k", 0)});
    }
    log.emplace(ctx, flags.step_log, flags.trace_samples);
  });
  const auto& [train, test] = **images;
  if (ctx.rank() == 0) {
    std::printf("training on %lld images with %d workers over %s on %s, %d per batch\n",
                static_cast<long long>(train.size()), ctx.world_size(), ctx.backend().c_str(),
                ctx.device().str().c_str(), flags.batch_size);
    std::fflush(stdout);
  }
  Classification task(ctx, flags, train, test);
  const double accuracy = example::Train(ctx, flags, train.size(), flags.batch_size, &*log, &task);
  if (ctx.rank() == 0) std::printf("test accuracy %.4f\n", accuracy);
  return 0;
}

}  // namespace

int Train(const Flags& flags) {
  std::optional<Images> images;
  return ddp::run_in_place(
      [&](const ddp::Context& ctx) { return TrainInOneGeneration(ctx, flags, &images); },
      example::OptionsOf(flags));
}

}  // namespace mnist
