// Tests verify_replicas(): replicas that differ are found and named.
#include <ddp/ddp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace verify_test {

using test::InRank;
using test::RankResult;
using test::RunRanks;
using test::StartedRanks;
using ::testing::ElementsAre;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(8, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    last = register_module("last", torch::nn::Linear(8, 2));
    empty = register_parameter("empty", torch::empty({0}));
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(norm(first(x))); }
  torch::nn::Linear first = nullptr;
  torch::nn::BatchNorm1d norm = nullptr;
  torch::nn::Linear last = nullptr;
  torch::Tensor empty;
};
TORCH_MODULE(Net);

// The text of the error, or "equal".
std::string Verify(const Context& ctx, const torch::nn::Module& module,
                   const VerifyOptions& options = VerifyOptions()) {
  try {
    verify_replicas(ctx, module, options);
  } catch (const AgreedError& e) {
    return e.what();
  }
  return "equal";
}

// Changes the lowest bit of one element.
void FlipABit(torch::Tensor tensor, std::int64_t element) {
  tensor.data_ptr<float>();  // CPU, float, contiguous
  reinterpret_cast<std::uint32_t*>(tensor.data_ptr())[element] ^= 1;
}

TEST(VerifyTest, ReplicasThatTrainStayEqualAndABitIsEnoughToBeFound) {
  if (StartedRanks(4)) return;
  const Context ctx = init();
  seed_everything(1);
  Net net;
  net->empty.requires_grad_(false);
  DistributedDataParallel<NetImpl> model(ctx, net);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1));
  seed_everything(1, static_cast<std::uint64_t>(ctx.rank()));
  for (int step = 0; step < 3; ++step) {
    model.zero_grad();
    model(torch::rand({4, 8})).sum().backward();
    optimizer.step();
  }
  EXPECT_EQ(Verify(ctx, *net), "equal");

  if (ctx.rank() == 2) FlipABit(net->last->weight, 15);
  EXPECT_EQ(Verify(ctx, *net),
            "the replicas differ: parameter 'last.weight' on rank 2 differs from the majority");
  if (ctx.rank() == 0) FlipABit(net->first->bias, 0);
  EXPECT_EQ(Verify(ctx, *net),
            "the replicas differ: parameter 'first.bias' on rank 0 differs from the majority; "
            "parameter 'last.weight' on rank 2 differs from the majority");
  if (ctx.rank() == 3) FlipABit(net->last->weight, 0);  // only 2 of 4 ranks agree: no majority
  const std::vector<ReplicaDifference> found = find_replica_differences(ctx, *net);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].name, "parameter 'last.weight'");
  EXPECT_THAT(found[1].ranks, ElementsAre(2, 3));
  EXPECT_FALSE(found[1].from_majority);
  EXPECT_THAT(found[0].ranks, ElementsAre(0));
  EXPECT_TRUE(found[0].from_majority);

  // BatchNorm's statistics differ between ranks after a training step.
  VerifyOptions with_buffers;
  with_buffers.buffers = true;
  model.sync_buffers();
  EXPECT_EQ(find_replica_differences(ctx, *net, with_buffers).size(), 2u);
  if (ctx.rank() == 1) net->norm->running_mean[0] += 1;
  EXPECT_EQ(find_replica_differences(ctx, *net).size(), 2u);
  const std::vector<ReplicaDifference> buffers = find_replica_differences(ctx, *net, with_buffers);
  ASSERT_EQ(buffers.size(), 3u);
  EXPECT_EQ(buffers[2].name, "buffer 'norm.running_mean'");
  EXPECT_THAT(buffers[2].ranks, ElementsAre(1));
  barrier(ctx);
}

TEST(VerifyTest, TheModelChecksItselfParametersAloneUnlessTold) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  seed_everything(1, static_cast<std::uint64_t>(ctx.rank()));  // the model has rank 0's values
  DistributedDataParallel<NetImpl> model(ctx, Net());
  model.verify_replicas();
  if (ctx.rank() == 1) model->norm->running_var[3] += 1;
  model.verify_replicas();
  const auto error = [&](const VerifyOptions& options) -> std::string {
    try {
      model.verify_replicas(options);
    } catch (const AgreedError& e) {
      return e.what();
    }
    return "equal";
  };
  VerifyOptions with_buffers;
  with_buffers.buffers = true;
  EXPECT_EQ(error(with_buffers),
            "the replicas differ: buffer 'norm.running_var' on rank 1 differs from the majority");
  if (ctx.rank() == 2) FlipABit(model->first->weight, 5);
  EXPECT_EQ(error({}),
            "the replicas differ: parameter 'first.weight' on rank 2 differs from the majority");
  barrier(ctx);
}

TEST(VerifyTest, OfTwoRanksTheSecondDiffersFromTheFirst) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  seed_everything(1);
  Net net;
  if (ctx.rank() == 0) FlipABit(net->last->bias, 1);
  EXPECT_EQ(Verify(ctx, *net),
            "the replicas differ: parameter 'last.bias' on rank 1 differs from rank 0");
  barrier(ctx);
}

TEST(VerifyTest, ShapeDtypeNameAndNumberCountToo) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  const bool odd = ctx.rank() == 1;
  const auto differences = [&](const char* name, const torch::Tensor& parameter) {
    torch::nn::Module module;
    module.register_parameter(name, parameter, /*requires_grad=*/false);
    return find_replica_differences(ctx, module).size();
  };
  const torch::Tensor zeros = torch::zeros({2, 3});
  EXPECT_EQ(differences("w", zeros), 0u);
  EXPECT_EQ(differences("w", odd ? torch::zeros({3, 2}) : zeros), 1u);
  EXPECT_EQ(differences("w", odd ? torch::zeros({2, 3}, torch::kInt) : zeros), 1u);
  EXPECT_EQ(differences(odd ? "v" : "w", zeros), 1u);
  // Strides do not count: the values are the same.
  EXPECT_EQ(differences("w", odd ? torch::zeros({3, 2}).t() : zeros), 0u);

  torch::nn::Module more;
  for (int i = 0; i < (odd ? 2 : 1); ++i) more.register_parameter(std::to_string(i), zeros.clone());
  EXPECT_EQ(Verify(ctx, more), "rank 1: the replicas differ: it has 2 tensors, rank 0 has 1");
  torch::nn::Module none;
  EXPECT_EQ(Verify(ctx, none), "equal");
  barrier(ctx);
}

TEST(VerifyTest, ManyDifferencesAreNamedInPartAndPrintedOnce) {
  if (InRank()) {
    exit(run([] {
      const Context ctx = init();
      torch::nn::Module module;
      for (int i = 0; i < 10; ++i) {
        module.register_parameter({'p', static_cast<char>('0' + i)},
                                  torch::full({1}, 1.0 * ctx.rank()));
      }
      verify_replicas(ctx, module);
      return 0;
    }));
  }
  const std::vector<RankResult> ranks = RunRanks({2, {}, {}});
  for (const RankResult& rank : ranks) EXPECT_EQ(rank.exit_code, 1);
  EXPECT_EQ(ranks[0].err, "");
  EXPECT_THAT(ranks[1].err, ::testing::StartsWith("[rank 1] error: the replicas differ: parameter "
                                                  "'p0' on rank 1 differs from rank 0; "));
  EXPECT_THAT(ranks[1].err, ::testing::EndsWith("rank 0; and 2 more tensors\n"));
}

}  // namespace verify_test
}  // namespace ddp
