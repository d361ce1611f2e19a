#include <ddp/collectives.h>
#include <ddp/distributed_data_parallel.h>
#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace distributed_data_parallel_test {

using test::StartedRanks;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSteps = 20;
constexpr int kBatch = 8;

struct Net : torch::nn::Module {
  explicit Net(std::int64_t width = 32)
      : conv(register_module("conv", torch::nn::Conv2d(1, 4, 3))),
        hidden(register_module("hidden", torch::nn::Linear(4 * 6 * 6, width))),
        out(register_module("out", torch::nn::Linear(width, 10))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    return out(torch::relu(hidden(torch::relu(conv(x)).flatten(1))));
  }

  torch::nn::Conv2d conv;
  torch::nn::Linear hidden;
  torch::nn::Linear out;
};

std::shared_ptr<Net> MakeNet() {
  seed_everything(11);
  return std::make_shared<Net>();
}

// The loss of `net` on the data of `rank` at `step`; different data on each rank.
template <typename Model>
torch::Tensor Loss(Model&& net, int step, int rank) {
  at::Generator generator =
      at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(1000 * step + rank));
  const torch::Tensor x = torch::randn({kBatch, 1, 8, 8}, generator);
  const torch::Tensor y = torch::randint(0, 10, {kBatch}, generator, torch::kInt64);
  return torch::cross_entropy_loss(net.forward(x), y);
}

torch::optim::SGD MakeOptimizer(const Net& net) {
  return torch::optim::SGD(net.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
}

torch::Tensor Flat(const Net& net) {
  std::vector<torch::Tensor> parts;
  for (const torch::Tensor& p : net.parameters()) parts.push_back(p.detach().flatten());
  return torch::cat(parts);
}

// Buckets so small that the model needs several, and their order is rebuilt after the first step.
DataParallelOptions SmallBuckets(bool gradient_as_bucket_view) {
  DataParallelOptions options;
  options.first_bucket_bytes = 512;
  options.bucket_cap_mb = 4096.0 / (1 << 20);
  options.gradient_as_bucket_view = gradient_as_bucket_view;
  return options;
}

torch::Tensor TrainWithDdp(const Context& ctx, const DataParallelOptions& options) {
  const std::shared_ptr<Net> net = MakeNet();
  DistributedDataParallel<Net> model(ctx, net, options);
  torch::optim::SGD optimizer = MakeOptimizer(*net);
  for (int step = 0; step < kSteps; ++step) {
    model.zero_grad();
    Loss(model, step, ctx.rank()).backward();
    optimizer.step();
  }
  EXPECT_GT(model.bucket_sizes().size(), 1u);
  return Flat(*net);
}

// The definition of averaging: for each parameter, all-reduce and divide.
torch::Tensor TrainByHand(const Context& ctx, bool average) {
  const std::shared_ptr<Net> net = MakeNet();
  torch::optim::SGD optimizer = MakeOptimizer(*net);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    Loss(*net, step, ctx.rank()).backward();
    if (average) {
      for (torch::Tensor& p : net->parameters()) {
        all_reduce_sum(ctx, p.mutable_grad());
        p.mutable_grad().div_(ctx.world_size());
      }
    }
    optimizer.step();
  }
  return Flat(*net);
}

// Seen red with the reducer's prepare_for_backward() left out: then nothing is averaged.
TEST(DistributedDataParallelTest, TwoRanksEqualTheAveragedLoopToTheLastBit) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const torch::Tensor expected = TrainByHand(ctx, true);
  EXPECT_TRUE(torch::equal(TrainWithDdp(ctx, SmallBuckets(false)), expected));
  EXPECT_TRUE(torch::equal(TrainWithDdp(ctx, SmallBuckets(true)), expected));
  // Checks the test itself: averaging makes a difference here.
  const torch::Tensor alone = TrainByHand(ctx, false);
  EXPECT_GT((alone - expected).norm().item<double>(), 1e-2 * expected.norm().item<double>());
}

TEST(DistributedDataParallelTest, ThreeRanksAreWithinRoundingOfTheAveragedLoop) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  const torch::Tensor expected = TrainByHand(ctx, true);
  const torch::Tensor actual = TrainWithDdp(ctx, SmallBuckets(false));
  EXPECT_LT((actual - expected).norm().item<double>(), 1e-5 * expected.norm().item<double>());
  torch::Tensor rank0 = actual.clone();
  broadcast(ctx, rank0);
  EXPECT_TRUE(torch::equal(actual, rank0)) << "the ranks have drifted apart";
}

TEST(DistributedDataParallelTest, StartsEveryRankFromTheValuesOfRank0) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  seed_everything(1, static_cast<std::uint64_t>(ctx.rank()));
  const auto net = std::make_shared<Net>();
  torch::Tensor rank0 = Flat(*net);
  broadcast(ctx, rank0);
  EXPECT_EQ(torch::equal(Flat(*net), rank0), ctx.rank() == 0);
  const DistributedDataParallel<Net> model(ctx, net);
  EXPECT_TRUE(torch::equal(Flat(*net), rank0));
}

TEST(DistributedDataParallelTest, AShapeThatDiffersIsRaisedOnEveryRankByName) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  const auto net = std::make_shared<Net>(ctx.rank() == 2 ? 31 : 32);
  try {
    DistributedDataParallel<Net> model(ctx, net);
    FAIL() << "expected an AgreedError";
  } catch (const AgreedError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("rank 2"), HasSubstr("'hidden.weight' float [31, 144]"),
                                HasSubstr("'hidden.weight' float [32, 144]")));
  }
  barrier(ctx);  // the group is still usable
}

TEST(DistributedDataParallelTest, ADtypeAndANumberThatDifferAreRaisedOnEveryRank) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const auto doubles = std::make_shared<Net>();
  if (ctx.rank() == 1) doubles->to(torch::kFloat64);
  const auto error = [&](const std::shared_ptr<Net>& net) -> std::string {
    try {
      DistributedDataParallel<Net> model(ctx, net);
    } catch (const AgreedError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(error(doubles), AllOf(HasSubstr("rank 1"), HasSubstr("weight' double ["),
                                    HasSubstr("weight' float [")));
  const auto more = std::make_shared<Net>();
  if (ctx.rank() == 1) more->register_module("extra", torch::nn::Linear(1, 1));
  EXPECT_THAT(error(more), AllOf(HasSubstr("rank 1"), HasSubstr("'extra.weight' float [1, 1]")));
  const auto buffers = std::make_shared<Net>();
  buffers->register_buffer(ctx.rank() == 1 ? "mine" : "yours", torch::zeros(2));
  EXPECT_THAT(error(buffers), AllOf(HasSubstr("rank 1"), HasSubstr("buffer 'mine' float [2]"),
                                    HasSubstr("buffer 'yours' float [2]")));
}

// Records the value of its buffer during forward.
struct BufferNet : torch::nn::Module {
  BufferNet()
      : layer(register_module("layer", torch::nn::Linear(1, 1))),
        buffer(register_buffer("buffer", torch::zeros(1))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    seen = buffer.item<float>();
    return layer(x);
  }
  torch::nn::Linear layer;
  torch::Tensor buffer;
  float seen = -1;
};

TEST(DistributedDataParallelTest, BuffersAreThoseOfRank0BeforeEachForwardUnlessSwitchedOff) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  for (const bool on : {true, false}) {
    const auto net = std::make_shared<BufferNet>();
    DataParallelOptions options;
    options.broadcast_buffers = on;
    DistributedDataParallel<BufferNet> model(ctx, net, options);
    for (int step = 1; step <= 3; ++step) {
      net->buffer.fill_(10 * step + ctx.rank());
      model(torch::ones({1, 1})).backward();
      EXPECT_EQ(net->seen, 10 * step + (on ? 0 : ctx.rank()));
    }
    net->buffer.fill_(ctx.rank());
    model.sync_buffers();
    EXPECT_EQ(net->buffer.item<float>(), 0);
  }
}

// Buffers of all dtypes travel in one message.
struct ManyBuffersNet : torch::nn::Module {
  ManyBuffersNet() : layer(register_module("layer", torch::nn::Linear(1, 1))) {
    for (const torch::Dtype dtype : {torch::kFloat, torch::kBool, torch::kDouble, torch::kLong,
                                     torch::kHalf, torch::kComplexDouble, torch::kByte}) {
      const std::string name = c10::toString(dtype);
      register_buffer("vector" + name, torch::zeros({3}, dtype));
      register_buffer("scalar" + name, torch::zeros({}, dtype));
      register_buffer("empty" + name, torch::zeros({2, 0}, dtype));
    }
    register_buffer("transposed", torch::zeros({2, 3}).t());
    register_buffer("strided", torch::zeros({6}).slice(0, 0, 6, 2));
  }
  torch::Tensor forward(const torch::Tensor& x) { return layer(x); }
  torch::nn::Linear layer;
};

// Seen red when each dtype was sent as it is: Gloo refuses bool.
TEST(DistributedDataParallelTest, BuffersOfAllDtypesAndShapesAreRank0s) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const auto net = std::make_shared<ManyBuffersNet>();
  DistributedDataParallel<ManyBuffersNet> model(ctx, net);
  for (const bool inference : {true, false}) {
    seed_everything(inference, static_cast<std::uint64_t>(ctx.rank()));
    for (torch::Tensor& buffer : net->buffers()) {
      buffer.copy_(torch::rand(buffer.sizes(), torch::kDouble).mul(100).add(1));
    }
    seed_everything(inference);
    std::vector<torch::Tensor> expected;
    for (const torch::Tensor& buffer : net->buffers()) {
      expected.push_back(torch::empty_like(buffer).copy_(
          torch::rand(buffer.sizes(), torch::kDouble).mul(100).add(1)));
    }
    const c10::InferenceMode mode(inference);
    model.sync_buffers();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(torch::equal(net->buffers()[i], expected[i])) << net->named_buffers()[i].key();
    }
  }
  barrier(ctx);
}

TEST(DistributedDataParallelTest, ForwardWithoutGradientsLeavesTheReducerAlone) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const std::shared_ptr<Net> net = MakeNet();
  DistributedDataParallel<Net> model(ctx, net);
  for (int step = 0; step < 3; ++step) {
    Loss(model, step, ctx.rank()).backward();
    const torch::NoGradGuard no_grad;
    Loss(model, step, ctx.rank());
  }
  model.zero_grad(/*set_to_none=*/false);
  for (const torch::Tensor& p : net->parameters()) EXPECT_EQ(p.grad().abs().sum().item<float>(), 0);
}

TEST(DistributedDataParallelTest, FrozenParametersAreSharedButNotAveraged) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const std::shared_ptr<Net> net = MakeNet();
  net->conv->weight.set_requires_grad(false);
  DistributedDataParallel<Net> model(ctx, net);
  Loss(model, 0, ctx.rank()).backward();
  EXPECT_FALSE(net->conv->weight.grad().defined());
  for (torch::Tensor& p : net->parameters()) p.set_requires_grad(false);
  EXPECT_THROW(DistributedDataParallel<Net>(ctx, net), ConfigError);
}

}  // namespace distributed_data_parallel_test
}  // namespace ddp
