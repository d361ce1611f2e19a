#include "worker/examples/gpt/trainer.h"

#include <ddp/ddp.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/examples/common/progress.h"
#include "worker/examples/common/step_log.h"
#include "worker/examples/gpt/autocast.h"
#include "worker/examples/gpt/net.h"
#include "worker/examples/gpt/text.h"

namespace gpt {
namespace {

constexpr std::int64_t kEvaluationBatch = 64;
constexpr double kLowestRate = 0.1;  // of --lr, at the end of the cosine
constexpr double kPi = 3.14159265358979323846;

// Everything that may be wrong on one rank alone, before the first collective that needs it.
struct Inputs {
  Text text;
  std::unique_ptr<example::StepLog> log;
  bool bf16 = false;
};

Inputs LoadInputs(const ddp::Context& ctx, const Flags& flags) {
  Inputs inputs;
  std::string problem;
  try {
    inputs.text = Load(flags.data, flags.limit_text, flags.context);
    inputs.log = std::make_unique<example::StepLog>(ctx, flags.step_log, flags.trace_samples);
    inputs.bf16 =
        flags.precision == "bf16" || (flags.precision == "auto" && ctx.device().is_cuda());
    if (inputs.bf16 && !ctx.device().is_cuda()) {
      throw ddp::ConfigError("--precision bf16 needs CUDA; this rank computes on the CPU");
    }
  } catch (const std::exception& e) {
    problem = e.what();
  }
  ddp::throw_if_any_failed(ctx, problem);
  return inputs;
}

// Matrices decay, what is added or multiplied element by element does not.
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

class Trainer {
 public:
  Trainer(const ddp::Context& ctx, const Flags& flags, const Inputs& inputs)
      : ctx_(ctx),
        flags_(flags),
        inputs_(inputs),
        model_(ctx, MakeNet(), ModelOptions()),
        optimizer_(Groups(model_.parameters(), flags)),
        sampler_(static_cast<std::size_t>(inputs.text.train.size()), ctx.world_size(), ctx.rank(),
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
    progress_.emplace(ctx_, StepsLeft(), WindowsPerStep() * ctx_.world_size());
    while (state_.epoch < flags_.epochs && !Finished()) RunEpoch();
    SaveTheEnd();
    ctx_.report_phase("evaluating");
    const double loss = Evaluate();
    if (ctx_.rank() != 0) return;
    std::printf("validation loss %.4f\n", loss);
    if (flags_.sample > 0) std::printf("sample:%s\n", Sample().c_str());
  }

 private:
  std::shared_ptr<Net> MakeNet() const {
    ddp::seed_everything(flags_.seed);
    NetOptions options;
    options.vocabulary = static_cast<std::int64_t>(inputs_.text.vocabulary.size());
    options.depth = flags_.depth;
    options.width = flags_.width;
    options.heads = flags_.heads;
    options.context = flags_.context;
    options.dropout = flags_.dropout;
    auto net = std::make_shared<Net>(options);
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

  std::int64_t WindowsPerStep() const {
    return std::int64_t{flags_.batch_size} * flags_.accumulate;
  }

  std::int64_t StepsOf(std::size_t windows) const {
    return (static_cast<std::int64_t>(windows) + WindowsPerStep() - 1) / WindowsPerStep();
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
      const auto indices = sampler_.next(static_cast<std::size_t>(WindowsPerStep()));
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
    const double loss = Evaluate();
    if (ctx_.rank() != 0) return;
    std::printf("epoch %lld/%d done at step %lld  validation loss %.4f\n",
                static_cast<long long>(state_.epoch), flags_.epochs,
                static_cast<long long>(state_.step), loss);
    std::fflush(stdout);
  }

  void Step(const std::vector<std::size_t>& indices) {
    model_.zero_grad();
    const double loss = Accumulate(indices);
    if (flags_.clip > 0) torch::nn::utils::clip_grad_norm_(model_.parameters(), flags_.clip);
    optimizer_.step();

    ++state_.step;
    ++state_.batch;
    inputs_.log->Add(state_.epoch, state_.step, indices, loss);
    if (checkpointer_) {
      checkpointer_->step(state_, Parts());
    } else {
      ctx_.report_step(state_.step);
    }
    progress_->Advance(state_.step, state_.epoch, loss);
  }

  // Leaves the gradient of the mean loss over all of `indices`, in batches of --batch-size, of
  // which the last one alone is averaged over the ranks. Every rank has as many indices. Returns
  // this rank's loss.
  double Accumulate(const std::vector<std::size_t>& indices) {
    const auto batch_size = static_cast<std::ptrdiff_t>(flags_.batch_size);
    double sum = 0;
    for (auto begin = indices.begin(); begin != indices.end();) {
      const auto end = begin + std::min(batch_size, indices.end() - begin);
      const std::unique_ptr<ddp::NoSync> no_sync(
          end == indices.end() ? nullptr : new ddp::NoSync(model_.no_sync()));
      const double share = static_cast<double>(end - begin) / static_cast<double>(indices.size());
      const torch::Tensor loss = Loss({begin, end}) * share;
      loss.backward();
      sum += loss.item<double>();
      begin = end;
    }
    return sum;
  }

  torch::Tensor Loss(const std::vector<std::size_t>& indices) {
    const Batch batch = inputs_.text.train.Get(indices, ctx_.device());
    const Autocast autocast(inputs_.bf16);
    const torch::Tensor logits = model_(batch.tokens);
    return torch::cross_entropy_loss(logits.flatten(0, 1), batch.targets.flatten());
  }

  // A function of the place in the training alone, so that it needs not be saved.
  void SetLearningRate() {
    const ddp::SamplerState place = sampler_.state();
    double done = (static_cast<double>(state_.epoch) +
                   static_cast<double>(place.consumed) / static_cast<double>(place.dataset_size)) /
                  flags_.epochs;
    if (flags_.max_steps > 0) {
      done =
          std::max(done, static_cast<double>(state_.step) / static_cast<double>(flags_.max_steps));
    }
    const double cosine =
        kLowestRate + (1 - kLowestRate) * (1 + std::cos(kPi * std::min(done, 1.0))) / 2;
    const double warm = static_cast<double>(state_.step + 1) / static_cast<double>(flags_.warm_up);
    const double lr = flags_.lr * cosine * std::min(warm, 1.0);
    for (auto& group : optimizer_.param_groups()) group.options().set_lr(lr);
  }

  // So that a job that is started again ends at once.
  void SaveTheEnd() {
    if (!checkpointer_ || flags_.checkpoint_dir.empty()) return;
    const bool saved = state_.step % flags_.checkpoint_every == 0 && sampler_.state().consumed > 0;
    if (!saved && state_.step != resumed_step_) checkpointer_->save(state_, Parts());
  }

  // The mean loss of a character of the validation text. Rank r looks at windows r, r + world_size,
  // ...: each window once, whatever the world size.
  double Evaluate() {
    model_->eval();
    const torch::NoGradGuard no_grad;
    const Windows& windows = inputs_.text.validation;
    double sum = 0;
    std::vector<std::size_t> indices;
    const auto flush = [&] {
      if (indices.empty()) return;
      const Batch batch = windows.Get(indices, ctx_.device());
      const Autocast autocast(inputs_.bf16);
      const torch::Tensor logits = model_.module().forward(batch.tokens);
      const torch::Tensor loss =
          torch::cross_entropy_loss(logits.flatten(0, 1), batch.targets.flatten());
      sum += loss.item<double>() * static_cast<double>(indices.size());
      indices.clear();
    };
    for (std::int64_t i = ctx_.rank(); i < windows.size(); i += ctx_.world_size()) {
      indices.push_back(static_cast<std::size_t>(i));
      if (std::ssize(indices) == kEvaluationBatch) flush();
    }
    flush();
    return ddp::all_reduce_sum(ctx_, sum) / static_cast<double>(windows.size());
  }

  // What the model goes on with after an end of line. Depends on the model and --seed alone. Not a
  // collective.
  std::string Sample() {
    model_->eval();
    const torch::NoGradGuard no_grad;
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(flags_.seed);
    const std::string& vocabulary = inputs_.text.vocabulary;
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

  // Constant after construction; the references are Train()'s, and outlive this object.
  const ddp::Context& ctx_;
  const Flags& flags_;
  const Inputs& inputs_;

  ddp::DistributedDataParallel<Net> model_;
  torch::optim::AdamW optimizer_;
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
    std::printf(
        "training on %lld windows of %lld characters with %d workers over %s on %s, %d x "
        "%d per step, in %s\n",
        static_cast<long long>(inputs.text.train.size()), static_cast<long long>(flags.context),
        ctx.world_size(), ctx.backend().c_str(), ctx.device().str().c_str(), flags.accumulate,
        flags.batch_size, inputs.bf16 ? "bf16" : "float32");
    std::fflush(stdout);
  }
  Trainer(ctx, flags, inputs).Run();
  return 0;
}

}  // namespace gpt
