#include "worker/examples/gpt/trainer.h"

#include <ddp/ddp.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/examples/common/step_log.h"
#include "worker/examples/common/training.h"
#include "worker/examples/gpt/autocast.h"
#include "worker/examples/gpt/net.h"
#include "worker/examples/gpt/text.h"

namespace gpt {
namespace {

constexpr std::size_t kEvaluationBatch = 64;
constexpr double kLowestRate = 0.1;  // share of --lr, at the end of the cosine
constexpr double kPi = 3.14159265358979323846;

// Weight decay applies to matrices. It does not apply to parameters that are added or multiplied
// element by element.
std::vector<torch::optim::OptimizerParamGroup> Groups(const std::vector<torch::Tensor>& parameters,
                                                      const Flags& flags) {
  std::vector<torch::Tensor> matrices;
  std::vector<torch::Tensor> vectors;
  for (const torch::Tensor& p : parameters) (p.dim() >= 2 ? matrices : vectors).push_back(p);
  const auto options = [&](double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(
        torch::optim::AdamWOptions(flags.lr).betas({0.9, 0.95}).weight_decay(decay));
  };
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(matrices, options(flags.weight_decay));
  groups.emplace_back(vectors, options(0));
  return groups;
}

NetOptions OptionsOf(const Flags& flags, const Text& text) {
  NetOptions options;
  options.vocabulary = static_cast<std::int64_t>(text.vocabulary.size());
  options.depth = flags.depth;
  options.width = flags.width;
  options.heads = flags.heads;
  options.context = flags.context;
  options.dropout = flags.dropout;
  return options;
}

class Prediction final : public example::Task {
 public:
  Prediction(const ddp::Context& ctx, const Flags& flags, const Text& text, bool bf16)
      : ctx_(ctx),
        flags_(flags),
        text_(text),
        bf16_(bf16),
        model_(example::MakeModel<Net>(ctx, flags.seed, OptionsOf(flags, text))),
        optimizer_(Groups(model_.parameters(), flags)) {}

  ddp::CheckpointParts Parts() override { return {model_, optimizer_}; }

  double LearningRate(double epochs, std::int64_t step) const override {
    double done = epochs / flags_.epochs;
    if (flags_.max_steps > 0) {
      done = std::max(done, static_cast<double>(step) / static_cast<double>(flags_.max_steps));
    }
    const double cosine =
        kLowestRate + (1 - kLowestRate) * (1 + std::cos(kPi * std::min(done, 1.0))) / 2;
    const double warm = static_cast<double>(step + 1) / static_cast<double>(flags_.warm_up);
    return flags_.lr * cosine * std::min(warm, 1.0);
  }

  double Step(const std::vector<std::size_t>& samples) override {
    model_.zero_grad();
    const double loss = Accumulate(samples);
    if (flags_.clip > 0) torch::nn::utils::clip_grad_norm_(model_.parameters(), flags_.clip);
    const ddp::OptimizerStep in_step(ctx_);
    optimizer_.step();
    return loss;
  }

  // The mean loss per character over the validation text.
  double Evaluate() override {
    model_->eval();
    const torch::NoGradGuard no_grad;
    double sum = 0;
    example::ForEachBatch(ctx_, text_.validation.size(), kEvaluationBatch,
                          [&](const auto& samples) {
                            const Batch batch = text_.validation.Get(samples, ctx_.device());
                            sum += Loss(batch, model_.module()).template item<double>() *
                                   static_cast<double>(samples.size());
                          });
    model_->train();
    return ddp::all_reduce_sum(ctx_, sum) / static_cast<double>(text_.validation.size());
  }

  std::string Describe(double loss) const override {
    char text[64];
    std::snprintf(text, sizeof(text), "validation loss %.4f", loss);
    return text;
  }

  // The text with which the model continues after a line break. It depends only on the model and
  // --seed. Not a collective.
  std::string Sample() {
    model_->eval();
    const torch::NoGradGuard no_grad;
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(flags_.seed);
    const std::string& vocabulary = text_.vocabulary;
    const std::size_t line_end = vocabulary.find('\n');
    torch::Tensor tokens =
        torch::full({1, 1}, static_cast<std::int64_t>(line_end == std::string::npos ? 0 : line_end),
                    torch::kInt64);
    std::string text;
    text += vocabulary[static_cast<std::size_t>(tokens.item<std::int64_t>())];
    while (static_cast<std::int64_t>(text.size()) <= flags_.sample) {
      const std::int64_t seen = std::min(tokens.size(1), flags_.context);
      const torch::Tensor logits =
          model_.module().forward(tokens.narrow(1, tokens.size(1) - seen, seen).to(ctx_.device()));
      const torch::Tensor last = logits[0][seen - 1].to(torch::kCPU, torch::kFloat64);
      const torch::Tensor next =
          torch::multinomial(torch::softmax(last / flags_.temperature, 0), 1, false, generator);
      tokens = torch::cat({tokens, next.view({1, 1})}, 1);
      text += vocabulary[static_cast<std::size_t>(next.item<std::int64_t>())];
    }
    return text;
  }

 private:
  // Computes the gradient of the mean loss over all `indices`, in batches of --batch-size. Only the
  // last batch averages the gradient over the ranks. All ranks must have the same number of
  // indices. Returns this rank's loss.
  double Accumulate(const std::vector<std::size_t>& indices) {
    const auto batch_size = static_cast<std::ptrdiff_t>(flags_.batch_size);
    double sum = 0;
    for (auto begin = indices.begin(); begin != indices.end();) {
      const auto end = begin + std::min(batch_size, indices.end() - begin);
      const std::unique_ptr<ddp::NoSync> no_sync(
          end == indices.end() ? nullptr : new ddp::NoSync(model_.no_sync()));
      const double share = static_cast<double>(end - begin) / static_cast<double>(indices.size());
      const torch::Tensor loss = Loss(text_.train.Get({begin, end}, ctx_.device()), model_) * share;
      loss.backward();
      sum += loss.item<double>();
      begin = end;
    }
    return sum;
  }

  // `model` is a module, or its DistributedDataParallel.
  template <typename Model>
  torch::Tensor Loss(const Batch& batch, Model& model) {
    const Autocast autocast(bf16_);
    const torch::Tensor logits = model.forward(batch.tokens);
    return torch::cross_entropy_loss(logits.flatten(0, 1), batch.targets.flatten());
  }

  // Owned by the caller. They must outlive this object.
  const ddp::Context& ctx_;
  const Flags& flags_;
  const Text& text_;
  const bool bf16_;

  ddp::DistributedDataParallel<Net> model_;
  torch::optim::AdamW optimizer_;
};

}  // namespace

namespace {

// `text` outlives a generation of the job, so it is read only once.
int TrainInOneGeneration(const ddp::Context& ctx, const Flags& flags, std::optional<Text>* text) {
  const bool bf16 =
      flags.precision == "bf16" || (flags.precision == "auto" && ctx.device().is_cuda());
  std::optional<example::StepLog> log;
  example::LoadOnEveryRank(ctx, [&] {
    if (!*text) *text = Load(flags.data, flags.limit_text, flags.context);
    log.emplace(ctx, flags.step_log, flags.trace_samples);
    if (bf16 && !ctx.device().is_cuda()) {
      throw ddp::ConfigError("--precision bf16 needs CUDA; this rank computes on the CPU");
    }
  });
  if (ctx.rank() == 0) {
    std::printf(
        "training on %lld windows of %lld characters with %d workers over %s on %s, %d x "
        "%d per step, in %s\n",
        static_cast<long long>((*text)->train.size()), static_cast<long long>(flags.context),
        ctx.world_size(), ctx.backend().c_str(), ctx.device().str().c_str(), flags.accumulate,
        flags.batch_size, bf16 ? "bf16" : "float32");
    std::fflush(stdout);
  }
  Prediction task(ctx, flags, **text, bf16);
  const double loss =
      example::Train(ctx, flags, (*text)->train.size(),
                     std::int64_t{flags.batch_size} * flags.accumulate, &*log, &task);
  if (ctx.rank() != 0) return 0;
  std::printf("%s\n", task.Describe(loss).c_str());
  if (flags.sample > 0) std::printf("sample:%s\n", task.Sample().c_str());
  return 0;
}

}  // namespace

int Train(const Flags& flags) {
  std::optional<Text> text;
  return ddp::run_in_place(
      [&](const ddp::Context& ctx) { return TrainInOneGeneration(ctx, flags, &text); },
      example::OptionsOf(flags));
}

}  // namespace gpt
