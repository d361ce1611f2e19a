// Tests stragglers with real ranks. Their computation is a sleep, so that its length does not
// depend on the load of the machine.
#include <ddp/collectives.h>
#include <ddp/distributed_data_parallel.h>
#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace stragglers_test {

using std::chrono::milliseconds;
using test::StartedRanks;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kWindow = 12;

struct Sleeper : torch::nn::Module {
  explicit Sleeper(bool buffer) : layer(register_module("layer", torch::nn::Linear(4, 4))) {
    // The buffer's broadcast in each forward waits for the slowest rank.
    if (buffer) register_buffer("buffer", torch::zeros(4));
  }
  torch::Tensor forward(const torch::Tensor& x, milliseconds sleep) {
    std::this_thread::sleep_for(sleep);
    return layer(x);
  }
  torch::nn::Linear layer;
};
using Model = DistributedDataParallel<Sleeper>;

DataParallelOptions EveryWindow() {
  DataParallelOptions options;
  options.straggler_every = kWindow;
  return options;
}

Model MakeModel(const Context& ctx, bool buffer = false) {
  return Model(ctx, std::make_shared<Sleeper>(buffer), EveryWindow());
}

void Step(Model& model, milliseconds sleep) {
  model.zero_grad();
  model(torch::ones({2, 4}), sleep).sum().backward();
}

std::vector<int> Ranks(const StragglerSummary& summary) {
  std::vector<int> ranks;
  for (const Straggler& straggler : summary.stragglers) ranks.push_back(straggler.rank);
  return ranks;
}

TEST(StragglersTest, OneThatIsSlowedByHalfIsNamedOnAllRanksAndNoneOnceItIsNot) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  for (const bool buffer : {false, true}) {
    Model model = MakeModel(ctx, buffer);
    EXPECT_EQ(model.stragglers().step, 0);
    const milliseconds slow(ctx.rank() == 1 ? 15 : 10);
    for (int step = 0; step < 3 * kWindow; ++step) Step(model, slow);
    EXPECT_THAT(Ranks(model.stragglers()), IsEmpty());  // two windows are too few
    EXPECT_EQ(model.stragglers().step, 2 * kWindow);
    Step(model, slow);
    ASSERT_THAT(Ranks(model.stragglers()), ElementsAre(1));
    EXPECT_EQ(model.stragglers().step, 3 * kWindow);
    EXPECT_EQ(model.stragglers().times.size(), 3u);
    const Straggler& straggler = model.stragglers().stragglers[0];
    EXPECT_GE(straggler.time, milliseconds(15));
    EXPECT_GE(straggler.others, milliseconds(10));
    EXPECT_LT(straggler.others, straggler.time);
    for (int step = 0; step < 2 * kWindow; ++step) Step(model, milliseconds(10));
    EXPECT_THAT(Ranks(model.stragglers()), IsEmpty());
  }
}

TEST(StragglersTest, AnEvenJobNamesNoneInTwentyRuns) {
  if (StartedRanks(4)) return;
  const Context ctx = init();
  for (int run = 0; run < 20; ++run) {
    Model model = MakeModel(ctx, run % 2 == 1);
    for (int step = 0; step < 3 * kWindow + 1; ++step) {
      Step(model, milliseconds(10));
      EXPECT_THAT(Ranks(model.stragglers()), IsEmpty()) << "run " << run << ", step " << step;
    }
    EXPECT_EQ(model.stragglers().step, 3 * kWindow);
  }
}

// The slow rank spends its time between the steps, in steps under no_sync(), in front of a
// collective that waits for it, and in backward.
TEST(StragglersTest, CountsAllThatARankDoesOnItsOwn) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const milliseconds slow(ctx.rank() == 1 ? 15 : 10);
  const torch::Tensor x = torch::ones({2, 4});
  const std::vector<std::function<void(Model&)>> kinds = {
      [&](Model& model) {
        std::this_thread::sleep_for(slow);
        Step(model, milliseconds(0));
      },
      [&](Model& model) {
        model.zero_grad();
        {
          const NoSync no_sync = model.no_sync();
          model(x, slow).sum().backward();
        }
        model(x, milliseconds(0)).sum().backward();
      },
      [&](Model& model) {
        std::this_thread::sleep_for(slow);
        torch::Tensor loss = torch::ones({1});
        all_reduce_mean(ctx, loss);
        Step(model, milliseconds(0));
      },
      [&](Model& model) {  // in backward
        model.zero_grad();
        torch::Tensor y = model(x, milliseconds(0));
        y.register_hook([&](const torch::Tensor&) { std::this_thread::sleep_for(slow); });
        y.sum().backward();
      },
  };
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    // Kind 0 sleeps before the buffer's broadcast, which then waits for the slow rank.
    Model model = MakeModel(ctx, /*buffer=*/kind == 0);
    for (int step = 0; step < 3 * kWindow + 1; ++step) kinds[kind](model);
    EXPECT_THAT(Ranks(model.stragglers()), ElementsAre(1)) << "kind " << kind;
  }
}

// Two models: the steps of each contain communication of the other.
TEST(StragglersTest, ModelsThatTakeTurnsSeeTheSameStraggler) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  Model first = MakeModel(ctx);
  Model second = MakeModel(ctx);
  for (int step = 0; step < 3 * kWindow + 1; ++step) {
    Step(first, milliseconds(ctx.rank() == 1 ? 15 : 10));
    Step(second, milliseconds(1));
  }
  EXPECT_THAT(Ranks(first.stragglers()), ElementsAre(1));
  EXPECT_THAT(Ranks(second.stragglers()), ElementsAre(1));
}

// Forwards of one rank only, unused results, and ranks without more inputs must not change the
// order of the exchanges.
TEST(StragglersTest, OnlyStepsThatAllRanksMakeCount) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  Model model = MakeModel(ctx);
  const torch::Tensor x = torch::ones({2, 4});
  for (int step = 0; step < 3 * kWindow; ++step) {
    if (ctx.rank() == 0) model(x, milliseconds(0));
    if (ctx.rank() == 1 && step > 0) {
      const NoSync no_sync = model.no_sync();
      model(x, milliseconds(0)).sum().backward();
    }
    Step(model, milliseconds(0));
  }
  EXPECT_EQ(model.stragglers().step, 2 * kWindow);
  model.join([&] {
    for (int step = 0; step < 4 * kWindow + 3 * ctx.rank(); ++step) Step(model, milliseconds(0));
  });
  EXPECT_EQ(model.stragglers().step, 2 * kWindow);
  Step(model, milliseconds(0));
  EXPECT_EQ(model.stragglers().step, 3 * kWindow);
  for (int step = 1; step <= kWindow; ++step) Step(model, milliseconds(0));
  EXPECT_EQ(model.stragglers().step, 4 * kWindow);
}

TEST(StragglersTest, RankZeroDecidesHowOften) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  DataParallelOptions options;
  options.straggler_every = ctx.rank() == 0 ? 3 : 0;
  Model model(ctx, std::make_shared<Sleeper>(false), options);
  for (int step = 0; step < 4; ++step) Step(model, milliseconds(0));
  EXPECT_EQ(model.stragglers().step, 3);
  options.straggler_every = ctx.rank() == 0 ? 0 : 3;
  Model silent(ctx, std::make_shared<Sleeper>(false), options);
  for (int step = 0; step < 4; ++step) Step(silent, milliseconds(0));
  EXPECT_EQ(silent.stragglers().step, 0);
}

TEST(StragglersTest, AJobOfOneHasNone) {
  if (StartedRanks(1)) return;
  const Context ctx = init();
  DataParallelOptions options;
  options.straggler_every = 1;
  Model model(ctx, std::make_shared<Sleeper>(false), options);
  for (int step = 0; step < 3; ++step) Step(model, milliseconds(0));
  EXPECT_EQ(model.stragglers().step, 0);
  options.straggler_every = -1;
  EXPECT_THROW(Model(ctx, std::make_shared<Sleeper>(false), options), ConfigError);
}

}  // namespace stragglers_test
}  // namespace ddp
