// A small training for tests of the Checkpointer.
#ifndef DDPRUN_TESTS_UNIT_WORKER_CHECKPOINT_CHECKPOINTER_TRAINING_H_
#define DDPRUN_TESTS_UNIT_WORKER_CHECKPOINT_CHECKPOINTER_TRAINING_H_

#include <ddp/checkpointer.h>
#include <ddp/distributed_data_parallel.h>
#include <ddp/errors.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace checkpointer_test {

namespace fs = std::filesystem;
using test::StartedRanks;

struct Net : torch::nn::Module {
  explicit Net(std::int64_t width = 5)
      : layer(register_module("layer", torch::nn::Linear(4, width))),
        norm(register_module("norm", torch::nn::BatchNorm1d(width))),
        out(register_module("out", torch::nn::Linear(width, 1))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return out(torch::dropout(norm(layer(x)), 0.5, is_training()));
  }
  torch::nn::Linear layer;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear out;
};

using MakeOptimizer = std::unique_ptr<torch::optim::Optimizer> (*)(std::vector<torch::Tensor>);

template <typename Optimizer, typename Options>
std::unique_ptr<torch::optim::Optimizer> Make(std::vector<torch::Tensor> parameters) {
  Options options(0.01);
  if constexpr (std::is_same_v<Options, torch::optim::SGDOptions>) options.momentum(0.9);
  if constexpr (std::is_same_v<Options, torch::optim::AdamOptions>) options.amsgrad(true);
  return std::make_unique<Optimizer>(parameters, options);
}

inline const std::vector<MakeOptimizer> kOptimizers = {
    &Make<torch::optim::SGD, torch::optim::SGDOptions>,
    &Make<torch::optim::Adam, torch::optim::AdamOptions>,
    &Make<torch::optim::AdamW, torch::optim::AdamWOptions>,
    &Make<torch::optim::RMSprop, torch::optim::RMSpropOptions>,
    &Make<torch::optim::Adagrad, torch::optim::AdagradOptions>};
inline constexpr MakeOptimizer kSgd = &Make<torch::optim::SGD, torch::optim::SGDOptions>;
inline constexpr MakeOptimizer kAdam = &Make<torch::optim::Adam, torch::optim::AdamOptions>;

// A model in training. The ranks draw different dropout.
class Training {
 public:
  Training(const Context& ctx, std::uint64_t seed, MakeOptimizer make, std::int64_t width = 5)
      : net(std::make_shared<Net>(width)), model(ctx, net), optimizer(make(net->parameters())) {
    seed_everything(seed, static_cast<std::uint64_t>(ctx.rank()));
  }

  void Steps(int count) {
    for (int i = 0; i < count; ++i) {
      model.zero_grad();
      model(torch::rand({6, 4})).pow(2).mean().backward();
      optimizer->step();
    }
  }

  std::vector<torch::Tensor> Values() const {
    std::vector<torch::Tensor> values;
    for (const auto& p : net->parameters()) values.push_back(p.detach().clone());
    for (const auto& b : net->buffers()) values.push_back(b.clone());
    return values;
  }

  std::shared_ptr<Net> net;
  DistributedDataParallel<Net> model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

inline bool Equal(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!torch::equal(a[i], b[i])) return false;
  }
  return true;
}

// A folder for each rank, as on nodes without a shared disk. Only rank 0 writes, so rank 1's folder
// never exists.
inline std::string OwnFolder(const Context& ctx) {
  return std::string(std::getenv("DDP_TEST_FOLDER")) + "/rank" + std::to_string(ctx.rank());
}

inline State At(std::int64_t step) {
  State state;
  state.step = step;
  state.epoch = 2;
  state.batch = 7;
  state.user = {{"note", "line\n\"quoted\""}};
  return state;
}

// The text of the StateUnreadableError that load_latest() throws. Call it on all ranks.
inline std::string WhyUnreadable(Checkpointer& checkpointer, const Training& training) {
  try {
    checkpointer.load_latest(*training.net, *training.optimizer);
  } catch (const StateUnreadableError& e) {
    return e.what();
  }
  return "it was read";
}

inline constexpr char kStep1[] = "step-000000000001.safetensors";
inline constexpr char kStep2[] = "step-000000000002.safetensors";

// Two checkpoints in rank 0's folder; returns the values of the older one.
inline std::vector<torch::Tensor> SaveTwo(const Context& ctx) {
  Training training(ctx, 1, kSgd);
  Checkpointer checkpointer(ctx, OwnFolder(ctx));
  std::vector<torch::Tensor> older;
  for (const std::int64_t step : {1, 2}) {
    training.Steps(1);
    training.model.sync_buffers();
    if (step == 1) older = training.Values();
    checkpointer.save(At(step), *training.net, *training.optimizer);
  }
  checkpointer.flush();
  return older;
}

class CheckpointerTest : public ::testing::Test {
 protected:
  bool Started(int ranks) { return StartedRanks(ranks, {{"DDP_TEST_FOLDER", folder_.path()}}); }
  ddprun::TempDir folder_;
};

}  // namespace checkpointer_test
}  // namespace ddp

#endif  // DDPRUN_TESTS_UNIT_WORKER_CHECKPOINT_CHECKPOINTER_TRAINING_H_
