// A small training with ddp::run_in_place(). The test says which rank dies, and where.
//
//   in_place_worker FOLDER STEPS [RANK STEP POINT [lost] [shares] [untold] [closure]]
//
// After each step a rank appends "GENERATION PID STEP SUM" to FOLDER/rank<R>.log; SUM is a hash of
// all parameters. Once in a job, rank RANK makes the file FOLDER/died and dies by SIGKILL, in step
// STEP at POINT:
//   forward, backward, averaged (after backward), optimizer
//   stays      at forward; the bodies of the other ranks do not return after that
//   start      at forward; then the first process that replaces it dies at the start of its body
//   early      at forward; then the first process that replaces it dies before it joins the group
//
// lost: instead of dying, the rank waits, and the test ends its node.
// shares: CheckpointerOptions::share_each_step. untold: there is no ddp::OptimizerStep.
// closure: the optimizer is LBFGS, which calls forward and backward in its step; otherwise Adam.
#include <ddp/ddp.h>
#include <fcntl.h>
#include <signal.h>
#include <torch/nn/functional/dropout.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/lbfgs.h>
#include <torch/types.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("in", in);
    register_module("norm", norm);
    register_module("out", out);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor hidden = torch::relu(norm(in(x)));
    return out(torch::dropout(hidden, 0.25, is_training()));
  }
  torch::nn::Linear in{16, 64};
  torch::nn::BatchNorm1d norm{64};
  torch::nn::Linear out{64, 4};
};

struct Flags {
  std::string folder;
  std::int64_t steps = 0;
  int rank = -1;
  std::int64_t step = -1;
  std::string point;
  bool lost = false;
  bool shares = false;
  bool untold = false;
  bool closure = false;
};

// Regular snapshots. Seldom, so a test sees if training goes back to one.
constexpr std::int64_t kSnapshotEvery = 5;

// True for the first process of the job that asks.
bool First(const Flags& flags, const std::string& what) {
  const std::string path = flags.folder + "/" + what;
  const int file = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file >= 0) close(file);
  return file >= 0;
}

void MayDie(const Flags& flags, const ddp::Context& ctx, std::int64_t step, const char* point) {
  if (step != flags.step || flags.point != point || ctx.rank() != flags.rank) return;
  if (!First(flags, "died")) return;
  while (flags.lost) pause();
  raise(SIGKILL);
}

std::uint64_t SumOf(const torch::nn::Module& module) {
  std::uint64_t sum = 14695981039346656037u;
  for (const torch::Tensor& parameter : module.parameters()) {
    const torch::Tensor values = parameter.detach().contiguous();
    const auto* const bytes = static_cast<const unsigned char*>(values.data_ptr());
    for (std::size_t i = 0; i < values.nbytes(); ++i) sum = (sum ^ bytes[i]) * 1099511628211u;
  }
  return sum;
}

void Tell(const Flags& flags, const ddp::Context& ctx, std::int64_t step, std::uint64_t sum) {
  const std::string path = flags.folder + "/rank" + std::to_string(ctx.rank()) + ".log";
  const std::string line = std::to_string(ctx.generation()) + " " + std::to_string(getpid()) + " " +
                           std::to_string(step) + " " + std::to_string(sum) + "\n";
  const int file = open(path.c_str(), O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
  if (write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  close(file);
}

std::unique_ptr<torch::optim::Optimizer> OptimizerOf(const Flags& flags, const NetImpl& net) {
  using torch::optim::LBFGSOptions;
  if (!flags.closure) {
    return std::make_unique<torch::optim::Adam>(net.parameters(), torch::optim::AdamOptions(1e-2));
  }
  return std::make_unique<torch::optim::LBFGS>(net.parameters(), LBFGSOptions(1e-3).max_iter(2));
}

int Train(const ddp::Context& ctx, const Flags& flags) {
  if (flags.point == "start" && ctx.rank() == flags.rank && ctx.generation() == 1 &&
      First(flags, "died at the start")) {
    raise(SIGKILL);
  }
  ddp::seed_everything(1);
  const auto net = std::make_shared<NetImpl>();
  ddp::DistributedDataParallel<NetImpl> model(ctx, net);
  const auto optimizer = OptimizerOf(flags, *net);
  ddp::seed_everything(1, static_cast<std::uint64_t>(ctx.rank()) + 1);
  const ddp::CheckpointParts parts(model, *optimizer);
  ddp::CheckpointerOptions options;
  options.share_each_step = flags.shares;
  if (flags.lost) options.snapshot_every = kSnapshotEvery;
  ddp::Checkpointer checkpointer(ctx, "", options);
  ddp::State state;
  if (const auto found = checkpointer.load_latest(parts)) state = *found;
  net->out->weight.register_hook(
      [&](const torch::Tensor&) { MayDie(flags, ctx, state.step + 1, "backward"); });
  while (state.step < flags.steps) {
    const std::int64_t step = state.step + 1;
    const torch::Tensor input = torch::randn({8, 16});  // a different input for each rank
    MayDie(flags, ctx, step, "forward");
    MayDie(flags, ctx, step, "start");
    MayDie(flags, ctx, step, "early");
    const auto backward = [&] {
      model.zero_grad();
      torch::Tensor loss = model.forward(input).pow(2).sum();
      loss.backward();
      return loss;
    };
    if (!flags.closure) backward();
    MayDie(flags, ctx, step, "averaged");
    {
      std::optional<ddp::OptimizerStep> in_step;
      if (!flags.untold) in_step.emplace(ctx);
      flags.closure ? optimizer->step(backward) : optimizer->step();
      MayDie(flags, ctx, step, "optimizer");
    }
    ++state.step;
    // A rank may leave in step(), and no rank repeats a finished step. But if a node is to be lost,
    // its snapshot must be there first.
    if (!flags.lost) Tell(flags, ctx, state.step, SumOf(*net));
    checkpointer.step(state, parts);
    if (flags.lost) Tell(flags, ctx, state.step, SumOf(*net));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc == 4 || argc == 5) return 64;
  Flags flags;
  flags.folder = argv[1];
  flags.steps = std::atoll(argv[2]);
  if (argc > 5) {
    flags.rank = std::atoi(argv[3]);
    flags.step = std::atoll(argv[4]);
    flags.point = argv[5];
  }
  for (int i = 6; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "lost") flags.lost = true;
    if (word == "shares") flags.shares = true;
    if (word == "untold") flags.untold = true;
    if (word == "closure") flags.closure = true;
  }
  if (flags.point == "early" && access((flags.folder + "/died").c_str(), F_OK) == 0 &&
      First(flags, "died early")) {
    raise(SIGKILL);
  }
  const bool stays = flags.point == "stays";
  if (stays) flags.point = "forward";
  return ddp::run_in_place([&](const ddp::Context& ctx) {
    try {
      return Train(ctx, flags);
    } catch (const std::exception&) {
      if (stays && ctx.generation() == 0) {
        for (;;) pause();
      }
      throw;
    }
  });
}
