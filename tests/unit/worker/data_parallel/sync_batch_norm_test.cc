#include <ddp/ddp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/worker/data_parallel/sync_batch_norm_cases.h"
#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace sync_batch_norm_test {

using test::StartedRanks;
using ::testing::HasSubstr;
using torch::nn::BatchNormOptions;

// torch::nn's own layer, for any number of dimensions: [n, features, ...] becomes [n, features,
// rest].
Tensor Plain(torch::nn::BatchNorm1d& norm, const Tensor& x) {
  return x.dim() <= 3 ? norm(x) : norm(x.flatten(2)).view_as(x);
}

struct Case {
  std::string name;
  std::vector<std::int64_t> rest;  // extents behind [batch, features]
  at::ScalarType dtype = torch::kFloat64;
  BatchNormOptions options{kFeatures};
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const at::ScalarType dtype : {torch::kFloat64, torch::kFloat32}) {
    const std::string type = dtype == torch::kFloat64 ? " double" : " float";
    cases.push_back({"2-D" + type, {}, dtype, BatchNormOptions(kFeatures)});
    cases.push_back({"3-D" + type, {3}, dtype, BatchNormOptions(kFeatures).momentum(0.3)});
    cases.push_back({"4-D" + type, {3, 2}, dtype, BatchNormOptions(kFeatures).eps(1e-2)});
    cases.push_back({"5-D" + type, {2, 1, 3}, dtype, BatchNormOptions(kFeatures)});
    cases.push_back(
        {"cumulative" + type, {2}, dtype, BatchNormOptions(kFeatures).momentum(c10::nullopt)});
    cases.push_back({"not affine" + type, {2}, dtype, BatchNormOptions(kFeatures).affine(false)});
    cases.push_back({"no statistics" + type,
                     {2},
                     dtype,
                     BatchNormOptions(kFeatures).track_running_stats(false)});
  }
  return cases;
}

void FillAffine(const Tensor& weight, const Tensor& bias) {
  if (!weight.defined()) return;
  const torch::NoGradGuard no_grad;
  weight.copy_(torch::linspace(0.5, 1.5, kFeatures));
  bias.copy_(torch::linspace(-1, 1, kFeatures));
}

// Three training steps and an evaluation, with the sum of random multiples of the outputs as loss.
void ExpectTheWholeBatch(const Context& ctx, const Case& c,
                         const std::vector<std::int64_t>& sizes) {
  const double bound = BoundOf(c.dtype);
  SyncBatchNorm norm(ctx, c.options);
  torch::nn::BatchNorm1d reference(c.options);
  norm->to(c.dtype);
  reference->to(c.dtype);
  FillAffine(norm->weight, norm->bias);
  FillAffine(reference->weight, reference->bias);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const std::string where = c.name + ", step " + std::to_string(step) + ": ";
    const Tensor whole = WholeBatch(sizes, c.rest, c.dtype, 10 + step);
    const Tensor multiples = WholeBatch(sizes, c.rest, c.dtype, 20 + step);
    Tensor x = PartOf(whole, sizes, ctx.rank());
    if (x.dim() == 4 && step == 1) x = x.contiguous(torch::MemoryFormat::ChannelsLast);
    x.set_requires_grad(true);
    Tensor all = whole.clone().set_requires_grad(true);
    norm->zero_grad();
    reference->zero_grad();
    const Tensor y = norm(x);
    const Tensor expected = Plain(reference, all);
    (y * PartOf(multiples, sizes, ctx.rank())).sum().backward();
    (expected * multiples).sum().backward();
    ExpectNear(y.detach(), PartOf(expected.detach(), sizes, ctx.rank()), bound, where + "output");
    ExpectNear(x.grad(), PartOf(all.grad(), sizes, ctx.rank()), bound, where + "input's gradient");
    if (c.options.affine()) {
      // These gradients are local: their sum over all ranks is the gradient of the whole batch. It
      // is a sum of dozens of values, so its bound is larger.
      Tensor weight = norm->weight.grad().clone();
      Tensor bias = norm->bias.grad().clone();
      all_reduce_sum(ctx, weight);
      all_reduce_sum(ctx, bias);
      ExpectNear(weight, reference->weight.grad(), 10 * bound, where + "weight's gradient");
      ExpectNear(bias, reference->bias.grad(), 10 * bound, where + "bias's gradient");
    }
    if (c.options.track_running_stats()) {
      ExpectNear(norm->running_mean, reference->running_mean, bound, where + "running_mean");
      ExpectNear(norm->running_var, reference->running_var, bound, where + "running_var");
      EXPECT_TRUE(SameBits(norm->num_batches_tracked, reference->num_batches_tracked)) << where;
    }
  }
  if (!c.options.track_running_stats()) return;
  verify_replicas(ctx, *norm, {/*buffers=*/true});
  norm->eval();
  reference->eval();
  const Tensor x = PartOf(WholeBatch(sizes, c.rest, c.dtype, 30), sizes, ctx.rank());
  ExpectNear(norm(x).detach(), Plain(reference, x).detach(), bound, c.name + ": evaluation");
}

void ExpectTheWholeBatch(const std::vector<std::int64_t>& sizes) {
  const Context ctx = init();
  for (const Case& c : Cases()) ExpectTheWholeBatch(ctx, c, sizes);
}

// Seen red while modules without weight and bias handed undefined tensors to autograd.
TEST(SyncBatchNormTest, TwoRanksEqualPlainNormalizationOfTheWholeBatch) {
  if (StartedRanks(2)) return;
  ExpectTheWholeBatch({3, 5});
}

TEST(SyncBatchNormTest, ThreeRanksOneWithASingleSampleToo) {
  if (StartedRanks(3)) return;
  ExpectTheWholeBatch({4, 1, 2});
}

TEST(SyncBatchNormTest, FourRanksOneWithAnEmptyBatchToo) {
  if (StartedRanks(4)) return;
  ExpectTheWholeBatch({2, 0, 5, 1});
}

// In float, a variance computed as the difference of two squares has no correct digit here.
TEST(SyncBatchNormTest, MeansFarFromZeroCostNoMoreThanAloneInFloat) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const std::vector<std::int64_t> sizes = {30, 34};
  const Tensor exact = WholeBatch(sizes, {}, torch::kFloat64, 1) + 3000;
  const Tensor whole = exact.to(torch::kFloat32);
  SyncBatchNorm norm(ctx, BatchNormOptions(kFeatures));
  torch::nn::BatchNorm1d reference(kFeatures);
  reference->to(torch::kFloat64);
  const Tensor y = norm(PartOf(whole, sizes, ctx.rank()));
  const Tensor expected = PartOf(reference(whole.to(torch::kFloat64)), sizes, ctx.rank());
  ExpectNear(y.detach().to(torch::kFloat64), expected.detach(), 5e-4, "output");
  ExpectNear(norm->running_var.to(torch::kFloat64), reference->running_var, 1e-5, "running_var");
}

TEST(SyncBatchNormTest, LowPrecisionIsComputedInFloat) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const std::vector<std::int64_t> sizes = {6, 2};
  const Tensor whole = WholeBatch(sizes, {3}, torch::kBFloat16, 1);
  SyncBatchNorm norm(ctx, BatchNormOptions(kFeatures));
  torch::nn::BatchNorm1d reference(kFeatures);
  Tensor x = PartOf(whole, sizes, ctx.rank()).set_requires_grad(true);
  const Tensor y = norm(x);
  y.sum().backward();
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(x.grad().scalar_type(), torch::kBFloat16);
  const Tensor expected = PartOf(reference(whole.to(torch::kFloat32)), sizes, ctx.rank());
  // bfloat16 has 8 bits: half a unit in the last place of values up to 4.
  ExpectNear(y.detach().to(torch::kFloat32), expected.detach(), 1.0 / 128, "output");
}

TEST(SyncBatchNormTest, BatchesThatAreEmptyOnAllRanksChangeNothing) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  SyncBatchNorm norm(ctx, BatchNormOptions(kFeatures).momentum(c10::nullopt));
  Tensor x = torch::zeros({0, kFeatures, 2}).set_requires_grad(true);
  const Tensor y = norm(x);
  y.sum().backward();
  EXPECT_EQ(y.sizes(), x.sizes());
  EXPECT_EQ(x.grad().sizes(), x.sizes());
  EXPECT_TRUE(SameBits(norm->running_mean, torch::zeros({kFeatures})));
  EXPECT_TRUE(SameBits(norm->running_var, torch::ones({kFeatures})));
  EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 0);
  EXPECT_TRUE(SameBits(norm->weight.grad(), torch::zeros({kFeatures})));
}

TEST(SyncBatchNormTest, OneValueOnAllRanksTogetherMakesNoNaN) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  SyncBatchNorm norm(ctx, BatchNormOptions(kFeatures));
  const Tensor y = norm(torch::full({ctx.rank(), kFeatures}, 7.0));
  EXPECT_TRUE(SameBits(y.detach(), torch::zeros({ctx.rank(), kFeatures})));
  ExpectNear(norm->running_mean, torch::full({kFeatures}, 0.7), 1e-6, "running_mean");
  ExpectNear(norm->running_var, torch::full({kFeatures}, 0.9), 1e-6, "running_var");
}

void ExpectBitsOfPlain(SyncBatchNorm norm, bool training) {
  torch::nn::BatchNorm1d reference(norm->options);
  norm->train(training);
  reference->train(training);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Tensor x = WholeBatch({6}, {4}, torch::kFloat32, seed).set_requires_grad(true);
    Tensor x2 = x.detach().clone().set_requires_grad(true);
    const Tensor y = norm(x);
    const Tensor expected = reference(x2);
    y.square().sum().backward();
    expected.square().sum().backward();
    EXPECT_TRUE(SameBits(y, expected));
    EXPECT_TRUE(SameBits(x.grad(), x2.grad()));
  }
  EXPECT_TRUE(SameBits(norm->running_mean, reference->running_mean));
  EXPECT_TRUE(SameBits(norm->running_var, reference->running_var));
  EXPECT_TRUE(SameBits(norm->num_batches_tracked, reference->num_batches_tracked));
  EXPECT_TRUE(SameBits(norm->weight.grad(), reference->weight.grad()));
}

TEST(SyncBatchNormTest, OneRankIsPlainNormalizationToTheLastBit) {
  if (StartedRanks(1)) return;
  const Context ctx = init();
  ExpectBitsOfPlain(SyncBatchNorm(ctx, BatchNormOptions(kFeatures)), true);
  ExpectBitsOfPlain(SyncBatchNorm(ctx, BatchNormOptions(kFeatures).momentum(c10::nullopt)), true);
}

TEST(SyncBatchNormTest, EvaluationAndNoContextArePlainNormalizationToTheLastBit) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  ExpectBitsOfPlain(SyncBatchNorm(ctx, BatchNormOptions(kFeatures)), false);
  if (ctx.rank() == 0) return;  // no collective: no rank waits for rank 0
  ExpectBitsOfPlain(SyncBatchNorm(kFeatures), true);
  ExpectBitsOfPlain(SyncBatchNorm(ctx, BatchNormOptions(kFeatures)), false);
}

TEST(SyncBatchNormTest, AGradientOfItsGradientIsRefused) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  SyncBatchNorm norm(ctx, BatchNormOptions(kFeatures));
  Tensor x = torch::ones({2, kFeatures}).set_requires_grad(true);
  try {
    norm(x).sum().backward({}, /*retain_graph=*/true, /*create_graph=*/true);
    ADD_FAILURE() << "backward returned";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("create_graph is not possible"));
  }
}

TEST(SyncBatchNormTest, AnInputOfAnotherShapeIsNamed) {
  SyncBatchNorm norm(4);
  try {
    norm(torch::ones({2, 3, 5}));
    ADD_FAILURE() << "forward returned";
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), HasSubstr("the input is [2, 3, 5], expected [batch, 4, ...]"));
  }
  EXPECT_THROW(norm(torch::ones({4})), ConfigError);
}

// ---- with DistributedDataParallel ----

// With batches of equal size, the mean of the ranks' gradients is the gradient of the mean loss
// over the whole batch. Compares with one process that has the whole batch.
TEST(SyncBatchNormTest, TrainsUnderDistributedDataParallelAsOneProcessWithTheWholeBatch) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  seed_everything(4);
  const auto alone = std::make_shared<Net>(true);
  const auto net = std::make_shared<Net>(false);
  load_into(*net, state_dict(*alone));
  alone->to(torch::kFloat64);
  net->to(torch::kFloat64);
  convert_sync_batchnorm(ctx, net);
  DistributedDataParallel<Net> model(ctx, net);
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::SGD optimizer_alone(alone->parameters(),
                                    torch::optim::SGDOptions(0.1).momentum(0.9));
  const std::vector<std::int64_t> sizes = {4, 4, 4};
  for (std::uint64_t step = 0; step < 30; ++step) {
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(step);
    const Tensor x = torch::randn({12, 6}, generator, torch::kFloat64);
    const Tensor target = x.narrow(1, 0, 2).prod(1, /*keepdim=*/true);
    model.zero_grad();
    torch::mse_loss(model(PartOf(x, sizes, ctx.rank())), PartOf(target, sizes, ctx.rank()))
        .backward();
    optimizer.step();
    alone->zero_grad();
    torch::mse_loss(alone->forward(x), target).backward();
    optimizer_alone.step();
  }
  const StateDict expected = state_dict(*alone);
  for (const auto& item : state_dict(*net)) {
    if (!item.value().is_floating_point()) continue;
    ExpectNear(item.value(), expected[item.key()], 1e-11, item.key());
  }
  model.verify_replicas({/*buffers=*/true});  // without sync_buffers()
}

// A rank that has finished in join() makes no collectives of SyncBatchNorm: the others must stop
// before their next forward reaches one.
TEST(SyncBatchNormTest, GoesWithJoinWhereAllStopWithTheFirstThatHasNoMoreInputs) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  const auto net = std::make_shared<Net>(false);
  convert_sync_batchnorm(ctx, net);
  DistributedDataParallel<Net> model(ctx, net);
  JoinOptions options;
  options.throw_on_early_termination = true;
  int steps = 0;
  const auto train = [&] {
    for (; steps < (ctx.rank() == 2 ? 2 : 7); ++steps) {
      model.zero_grad();
      model(torch::randn({3, 6})).sum().backward();
    }
  };
  try {
    model.join(train, options);
    ADD_FAILURE() << "join() returned";
  } catch (const AgreedError& e) {
    EXPECT_THAT(e.what(), HasSubstr("rank 2: no more inputs"));
  }
  EXPECT_EQ(steps, 2);
}

}  // namespace sync_batch_norm_test
}  // namespace ddp
