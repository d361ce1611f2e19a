// Tests the semantics of DistributedDataParallel beyond plain averaging: accumulation, shared
// parameters, static graphs, sparse gradients, buckets, statistics.
#include <ddp/collectives.h>
#include <ddp/distributed_data_parallel.h>
#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/worker/support/heads.h"
#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace data_parallel_semantics_test {

using test::Heads;
using test::StartedRanks;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using torch::nn::Linear;

torch::Tensor Input(int step, int rank) {
  return torch::full({2, 3}, static_cast<float>(step + 2 * rank + 1)) * 0.1;
}

struct Plain : Heads {
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = trunk(x);
    return left(y) + right(torch::relu(y));
  }
};

// The gradients of `module` after `micro_batches` backward passes, averaged by hand.
std::vector<torch::Tensor> AccumulatedByHand(const Context& ctx, Plain& module, int micro_batches) {
  for (torch::Tensor& p : module.parameters()) p.mutable_grad().reset();
  for (int i = 0; i < micro_batches; ++i) module.forward(Input(i, ctx.rank())).sum().backward();
  std::vector<torch::Tensor> gradients;
  for (torch::Tensor& p : module.parameters()) {
    torch::Tensor mean = p.grad().clone();
    all_reduce_mean(ctx, mean);
    gradients.push_back(mean);
    p.mutable_grad().reset();
  }
  return gradients;
}

// Seen red with no_sync() that does nothing.
TEST(NoSyncTest, AccumulatesLocallyAndAveragesTheSumInTheFirstStepAfterIt) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  for (const bool view : {false, true}) {
    for (const bool search : {false, true}) {
      SCOPED_TRACE(std::string(view ? "views " : "") + (search ? "search" : ""));
      DataParallelOptions options;
      options.gradient_as_bucket_view = view;
      options.find_unused_parameters = search;
      const auto net = std::make_shared<Plain>();
      DistributedDataParallel<Plain> model(ctx, net, options);
      const std::vector<torch::Tensor> expected = AccumulatedByHand(ctx, *net, 3);
      for (int step = 0; step < 3; ++step) {
        model.zero_grad(step % 2 == 0);
        {
          const auto outer = model.no_sync();
          { const auto inner = model.no_sync(); }  // does not end the outer one
          for (int i = 0; i < 2; ++i) model(Input(i, ctx.rank())).sum().backward();
          torch::Tensor local = net->left->weight.grad().clone();
          torch::Tensor mean = local.clone();
          all_reduce_mean(ctx, mean);
          EXPECT_FALSE(torch::allclose(local, mean)) << "already averaged";
        }
        model(Input(2, ctx.rank())).sum().backward();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_TRUE(torch::allclose(net->parameters()[i].grad(), expected[i], 1e-5, 1e-6))
              << "parameter " << i << " in step " << step;
        }
      }
    }
  }
}

// A tensor and a whole module are registered twice.
struct Tied : torch::nn::Module {
  explicit Tied(bool tie = true)
      : embedding(register_module("embedding", torch::nn::Embedding(5, 3))),
        tied(register_parameter("tied", tie ? embedding->weight : torch::ones({5, 3}))),
        layer(register_module("layer", Linear(3, 3))) {
    register_module("again", layer);
  }
  torch::Tensor forward(const torch::Tensor& x) { return layer(layer(embedding(x))).mm(tied.t()); }
  torch::nn::Embedding embedding;
  torch::Tensor tied;
  Linear layer;
};

// Seen red with Unique() left out: then a parameter is marked ready twice.
TEST(SharedParametersTest, CountOnceUnderTheirFirstName) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const auto net = std::make_shared<Tied>();
  DistributedDataParallel<Tied> model(ctx, net);
  EXPECT_THAT(model.bucket_sizes(), ElementsAre((15 + 9 + 3) * sizeof(float)));
  const torch::Tensor x = torch::tensor({ctx.rank(), 3});
  net->forward(x).sum().backward();
  torch::Tensor expected = net->tied.grad().clone();
  all_reduce_mean(ctx, expected);
  model.zero_grad();
  model(x).sum().backward();
  EXPECT_TRUE(torch::allclose(net->embedding->weight.grad(), expected));

  // Python's optimizers also get each tensor once; Module::parameters() has the shared ones twice.
  EXPECT_EQ(net->parameters().size(), 6u);
  EXPECT_EQ(model.parameters().size(), 3u);
  EXPECT_TRUE(model.parameters()[0].is_same(net->tied));

  // Rank 1 does not share the tensor, so its list differs from that of rank 0. A module's own
  // tensors come first in the list, so the first difference is after `tied`.
  const auto other = std::make_shared<Tied>(ctx.rank() == 0);
  try {
    DistributedDataParallel<Tied> wrong(ctx, other);
    FAIL() << "expected an AgreedError";
  } catch (const AgreedError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("rank 1: "), HasSubstr("'embedding.weight'"),
                                HasSubstr("(4 tensors here, 3 on rank 0)")));
  }
}

template <typename Module>
std::string ConstructionError(const Context& ctx, const std::shared_ptr<Module>& net) {
  try {
    DistributedDataParallel<Module> model(ctx, net);
  } catch (const AgreedError& e) {
    return e.what();
  }
  return "no error";
}

struct OneParameter : torch::nn::Module {
  explicit OneParameter(c10::DeviceType device) {
    register_parameter("p", torch::zeros({2}, torch::device(device)));
  }
  torch::Tensor forward(const torch::Tensor& x) { return x; }
};

TEST(SameModelTest, StridesAndDevicesThatDifferAreNamedOnEveryRank) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const auto strided = std::make_shared<Plain>();
  if (ctx.rank() == 1) strided->trunk->weight.set_data(torch::zeros({3, 4}).t());
  EXPECT_EQ(ConstructionError(ctx, strided),
            "rank 1: the model differs from rank 0's: this rank has parameter 'trunk.weight' float "
            "[4, 3] strides [1, 4], rank 0 has parameter 'trunk.weight' float [4, 3]. All ranks "
            "must build the same module");
  const auto elsewhere =
      std::make_shared<OneParameter>(ctx.rank() == 1 ? torch::kMeta : torch::kCPU);
  EXPECT_THAT(ConstructionError(ctx, elsewhere),
              AllOf(HasSubstr("rank 1: parameter 'p' is on meta"), HasSubstr("cpu")));
  const auto frozen = std::make_shared<Plain>();
  if (ctx.rank() == 1) frozen->right->bias.set_requires_grad(false);
  EXPECT_THAT(ConstructionError(ctx, frozen), HasSubstr("'right.bias' float [2] without gradient"));
}

struct UsesTrunkTwice : Heads {
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = trunk(x);
    return left(y + trunk(y.narrow(1, 0, 3)));
  }
};

// Seen red with the callback that starts the first step's all-reduces left out.
TEST(StaticGraphTest, KnowsUnusedParametersFromTheFirstStepOn) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  for (const bool view : {false, true}) {
    DataParallelOptions options;
    options.static_graph = true;
    options.gradient_as_bucket_view = view;
    const auto net = std::make_shared<UsesTrunkTwice>();
    DistributedDataParallel<UsesTrunkTwice> model(ctx, net, options);
    for (int step = 0; step < 4; ++step) {
      model.zero_grad();
      net->forward(Input(step, ctx.rank())).sum().backward();
      torch::Tensor expected = net->trunk->weight.grad().clone();
      all_reduce_mean(ctx, expected);
      model.zero_grad();
      model(Input(step, ctx.rank())).sum().backward();
      EXPECT_TRUE(torch::allclose(net->trunk->weight.grad(), expected)) << "step " << step;
      EXPECT_FALSE(net->right->weight.grad().defined());
    }
  }
}

// Seen red, on libtorch 2.6, with ForgetEarlierBackwards left out; on 1.13 with the first step's
// all-reduces started under no_sync as well.
TEST(StaticGraphTest, GradientsMayBeAccumulatedBeforeTheFirstStepAndAfter) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  for (const bool view : {false, true}) {
    DataParallelOptions options;
    options.static_graph = true;
    options.gradient_as_bucket_view = view;
    const auto net = std::make_shared<UsesTrunkTwice>();
    DistributedDataParallel<UsesTrunkTwice> model(ctx, net, options);
    for (int step = 0; step < 4; ++step) {
      const auto input = [&](int part) { return Input(3 * step + part, ctx.rank()); };
      for (int part = 0; part < 3; ++part) net->forward(input(part)).sum().backward();
      torch::Tensor expected = net->trunk->weight.grad().clone();
      all_reduce_mean(ctx, expected);
      model.zero_grad();
      {
        const auto no_sync = model.no_sync();
        for (int part = 0; part < 2; ++part) model(input(part)).sum().backward();
      }
      model(input(2)).sum().backward();
      EXPECT_TRUE(torch::allclose(net->trunk->weight.grad(), expected)) << "step " << step;
      model.zero_grad();
    }
  }
}

struct Words : torch::nn::Module {
  explicit Words(bool sparse)
      : embedding(register_module(
            "embedding", torch::nn::Embedding(torch::nn::EmbeddingOptions(6, 2).sparse(sparse)))),
        bag(register_module(
            "bag", torch::nn::EmbeddingBag(
                       torch::nn::EmbeddingBagOptions(6, 2).sparse(sparse).mode(torch::kSum)))),
        out(register_module("out", Linear(2, 1))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return out(2 * embedding(x) + 3 * bag(x.unsqueeze(1)));
  }
  torch::nn::Embedding embedding;
  torch::nn::EmbeddingBag bag;
  Linear out;
};

// Seen red with expect_sparse left out.
TEST(SparseGradientTest, IsAveragedAndStaysSparse) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const torch::Tensor x = torch::tensor({ctx.rank(), ctx.rank() + 1, 5});
  std::vector<torch::Tensor> gradients[2];
  for (const bool sparse : {false, true}) {
    seed_everything(4);
    const auto net = std::make_shared<Words>(sparse);
    DistributedDataParallel<Words> model(ctx, net);
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      model(x).sum().backward();
    }
    EXPECT_EQ(net->embedding->weight.grad().is_sparse(), sparse);
    EXPECT_EQ(net->bag->weight.grad().is_sparse(), sparse);
    EXPECT_FALSE(net->out->weight.grad().is_sparse());
    EXPECT_EQ(model.bucket_sizes().size(), sparse ? 3u : 1u);
    for (const torch::Tensor& p : net->parameters()) {
      gradients[sparse].push_back(p.grad().is_sparse() ? p.grad().to_dense() : p.grad());
    }
  }
  EXPECT_GT(gradients[0][0].abs().sum().item<float>(), 0);
  for (std::size_t i = 0; i < gradients[0].size(); ++i) {
    EXPECT_TRUE(torch::allclose(gradients[0][i], gradients[1][i])) << "parameter " << i;
  }
}

// Seen red with zero_grad(true) that does nothing.
TEST(ZeroGradTest, ForgetsOrFillsWithAndWithoutViews) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  for (const bool view : {false, true}) {
    DataParallelOptions options;
    options.gradient_as_bucket_view = view;
    const auto net = std::make_shared<Plain>();
    net->right->bias.set_requires_grad(false);
    DistributedDataParallel<Plain> model(ctx, net, options);
    torch::Tensor expected;
    for (const bool forget : {true, false, true, false, false, true}) {
      model.zero_grad(forget);
      if (expected.defined()) {
        EXPECT_EQ(net->left->weight.grad().defined(), !forget);
        if (!forget) {
          EXPECT_EQ(net->left->weight.grad().abs().max().item<float>(), 0);
        }
      }
      model(Input(0, ctx.rank())).sum().backward();
      if (!expected.defined()) expected = net->left->weight.grad().clone();
      EXPECT_TRUE(torch::allclose(net->left->weight.grad(), expected));
    }
  }
}

// Its layers are registered in another order than backward reaches them.
struct Crossed : torch::nn::Module {
  Crossed()
      : last(register_module("last", Linear(torch::nn::LinearOptions(64, 1).bias(false)))),
        first(register_module("first", Linear(torch::nn::LinearOptions(8, 32).bias(false)))),
        middle(register_module("middle", Linear(torch::nn::LinearOptions(32, 64).bias(false)))) {}
  torch::Tensor forward(const torch::Tensor& x) { return last(middle(first(x))); }
  Linear last, first, middle;
};

// Seen red with rebuild_buckets() left out.
TEST(BucketsTest, AreRebuiltInTheOrderOfGradientsWithinTheirLimits) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  DataParallelOptions options;
  options.first_bucket_bytes = 64 * 4;
  options.bucket_cap_mb = 64.0 * 32 * 4 / (1 << 20);
  const auto net = std::make_shared<Crossed>();
  DistributedDataParallel<Crossed> model(ctx, net, options);
  EXPECT_THAT(model.bucket_sizes(), ElementsAre((64 + 8 * 32 + 32 * 64) * 4));
  for (int step = 0; step < 2; ++step) model(torch::ones({1, 8})).sum().backward();
  EXPECT_THAT(model.bucket_sizes(), ElementsAre(64 * 4, 32 * 64 * 4, 8 * 32 * 4));
  EXPECT_THROW(
      {
        options.bucket_cap_mb = 0;
        DistributedDataParallel<Crossed>(ctx, net, options);
      },
      ConfigError);
}

TEST(StatisticsTest, SayWhereTheTimeOfAStepGoes) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  DataParallelOptions options;
  options.first_bucket_bytes = 1;
  options.bucket_cap_mb = 1e-6;  // a bucket for each parameter, so that there is overlap
  options.statistics_sample_rate = 5;
  const auto net = std::make_shared<Crossed>();
  DistributedDataParallel<Crossed> model(ctx, net, options);
  EXPECT_EQ(model.statistics().hidden_share(), 0);
  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < 21; ++step) {
    model(torch::ones({512, 8})).sum().backward();
    const torch::NoGradGuard no_grad;
    model(torch::ones({1, 8}));  // not a step
  }
  const std::chrono::nanoseconds per_step = (std::chrono::steady_clock::now() - start) / 21;
  const DataParallelStatistics statistics = model.statistics();
  EXPECT_EQ(statistics.steps, 21);
  EXPECT_EQ(statistics.measured_steps, 12);  // 1 to 10, 15, 20
  EXPECT_TRUE(statistics.buckets_rebuilt);
  EXPECT_EQ(statistics.bucket_bytes, model.bucket_sizes());
  EXPECT_GT(statistics.forward.count(), 0);
  EXPECT_GT(statistics.backward_compute.count(), 0);
  EXPECT_GT(statistics.communication.count(), 0);
  EXPECT_GT(statistics.overlap.count(), 0);
  EXPECT_LE(statistics.overlap, statistics.communication);
  EXPECT_LE(statistics.overlap, statistics.backward_compute);
  EXPECT_LT(statistics.forward + statistics.backward_compute, 20 * per_step);
  EXPECT_GT(statistics.hidden_share(), 0);
  EXPECT_LE(statistics.hidden_share(), 1);
}

}  // namespace data_parallel_semantics_test
}  // namespace ddp
