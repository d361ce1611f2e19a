#include <ddp/ddp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace sync_batch_norm_test {

using test::StartedRanks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using torch::Tensor;
using torch::nn::BatchNormOptions;

constexpr std::int64_t kFeatures = 5;
// Against one pass over the whole batch, of values around 1: only the order of sums differs.
constexpr double kDoubleBound = 1e-13;
constexpr double kFloatBound = 1e-5;

double BoundOf(at::ScalarType dtype) {
  return dtype == torch::kFloat64 ? kDoubleBound : kFloatBound;
}

void ExpectNear(const Tensor& actual, const Tensor& expected, double bound,
                const std::string& what) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << what;
  if (actual.numel() == 0) return;
  // Not "at most": a NaN is not.
  const double distance = (actual - expected).abs().max().item<double>();
  EXPECT_TRUE(distance <= bound) << what << " differs by " << distance;
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.equal(b);
}

// A batch of the sizes of all ranks, the same on every rank. Each feature has a mean of its own.
Tensor WholeBatch(const std::vector<std::int64_t>& sizes, std::vector<std::int64_t> rest,
                  at::ScalarType dtype, std::uint64_t seed) {
  std::int64_t batch = 0;
  for (const std::int64_t size : sizes) batch += size;
  std::vector<std::int64_t> shape = {batch, kFeatures};
  shape.insert(shape.end(), rest.begin(), rest.end());
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const Tensor values = torch::randn(shape, generator, torch::kFloat64);
  std::vector<std::int64_t> spread(shape.size(), 1);
  spread[1] = kFeatures;
  return (values + torch::linspace(-2, 2, kFeatures, torch::kFloat64).view(spread)).to(dtype);
}

Tensor PartOf(const Tensor& whole, const std::vector<std::int64_t>& sizes, int rank) {
  std::int64_t begin = 0;
  for (int i = 0; i < rank; ++i) begin += sizes[static_cast<std::size_t>(i)];
  return whole.narrow(0, begin, sizes[static_cast<std::size_t>(rank)]).clone();
}

// torch::nn's own, whatever the number of dimensions: [n, features, ...] as [n, features, rest].
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
      // Local: all ranks' together are the whole batch's. Sums of dozens of values.
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

// In float, a variance that is taken as the difference of two squares has no digit left here.
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
  if (ctx.rank() == 0) return;  // no collective: nobody waits for rank 0
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

struct Net : torch::nn::Module {
  explicit Net(bool plain) : plain_(plain) {
    register_module("in", in);
    if (plain) {
      register_module("norm", plain_norm);
    } else {
      register_module("norm", norm);
    }
    register_module("out", out);
  }
  Tensor forward(const Tensor& x) {
    const Tensor y = in(x);
    return out(torch::relu(plain_ ? plain_norm(y) : norm(y)));
  }
  const bool plain_;
  torch::nn::Linear in{6, kFeatures};
  SyncBatchNorm norm{kFeatures};
  torch::nn::BatchNorm1d plain_norm{kFeatures};
  torch::nn::Linear out{kFeatures, 1};
};

// The mean of the ranks' gradients is that of the mean loss over the whole batch, where batches are
// equally large. Against one process that has the whole batch.
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

// A rank that has joined the end makes no collectives of SyncBatchNorm: the others must have
// stopped before their next forward gets there.
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

// ---- conversion ----

// As libtorch wants it: the forward() of a Sequential in a Sequential must not be a template.
struct BranchImpl : torch::nn::SequentialImpl {
  using SequentialImpl::SequentialImpl;
  Tensor forward(const Tensor& x) { return SequentialImpl::forward(x); }
};
TORCH_MODULE(Branch);

torch::nn::Sequential MakeSequential() {
  torch::nn::BatchNorm1d shared(3);
  return torch::nn::Sequential(
      torch::nn::Linear(3, 3), shared, torch::nn::ReLU(),
      Branch(torch::nn::BatchNorm2d(BatchNormOptions(3).momentum(0.4)),
             torch::nn::BatchNorm3d(BatchNormOptions(3).affine(false))),
      shared, torch::nn::BatchNorm1d(BatchNormOptions(3).track_running_stats(false)));
}

std::vector<std::string> Describe(const torch::nn::Module& module) {
  std::vector<std::string> lines;
  for (const auto& item : state_dict(module)) {
    std::ostringstream line;
    line << item.key() << " " << item.value().data_ptr() << " " << item.value().requires_grad();
    lines.push_back(line.str());
  }
  return lines;
}

TEST(ConvertSyncBatchNormTest, ReplacesThoseOfASequentialAndKeepsTensorsNamesAndOrder) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  torch::nn::Sequential net = MakeSequential();
  net[1]->eval();
  net[1]->named_parameters()["bias"].set_requires_grad(false);
  const std::vector<std::string> before = Describe(*net);
  const auto names = net->named_modules("net").keys();
  EXPECT_EQ(convert_sync_batchnorm(ctx, net.ptr()), net.ptr());

  EXPECT_EQ(Describe(*net), before);
  EXPECT_EQ(net->named_modules("net").keys(), names);
  EXPECT_FALSE(net[1]->is_training());
  EXPECT_TRUE(net[5]->is_training());
  EXPECT_EQ(net[1], net[4]) << "shared";
  auto* const inner = net[3]->as<Branch>();
  ASSERT_NE(inner, nullptr);
  for (const auto& module : {net[1], inner->ptr(0), inner->ptr(1), net[5]}) {
    auto* const norm = module->as<SyncBatchNorm>();
    ASSERT_NE(norm, nullptr);
    EXPECT_EQ(norm->context(), &ctx);
  }
  EXPECT_EQ(inner->ptr(0)->as<SyncBatchNorm>()->options.momentum(), 0.4);
  std::ostringstream text;
  text << *inner;
  EXPECT_THAT(text.str(), AllOf(HasSubstr("ddp::SyncBatchNorm(3, eps=1e-05, momentum=0.4, "
                                          "affine=true, track_running_stats=true)"),
                                Not(HasSubstr("torch::nn::BatchNorm"))));
}

// What a Sequential calls is what was put there, not only what is registered.
TEST(ConvertSyncBatchNormTest, ForwardOfASequentialIsSynchronized) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  torch::nn::Sequential net{torch::nn::BatchNorm1d(kFeatures)};
  convert_sync_batchnorm(ctx, net.ptr());
  const std::vector<std::int64_t> sizes = {2, 3};
  const Tensor whole = WholeBatch(sizes, {}, torch::kFloat32, 1);
  torch::nn::BatchNorm1d reference(kFeatures);
  ExpectNear(net->forward(PartOf(whole, sizes, ctx.rank())).detach(),
             PartOf(reference(whole), sizes, ctx.rank()).detach(), kFloatBound, "output");
}

struct Typed : torch::nn::Module {
  Typed() {
    register_module("head", head);
    register_module("norm", norm);
    register_module("list", list);
    register_module("sync", sync);
  }
  torch::nn::Sequential head{torch::nn::BatchNorm1d(2)};
  torch::nn::BatchNorm1d norm{2};
  torch::nn::ModuleList list{torch::nn::BatchNorm2d(2), torch::nn::Linear(2, 2)};
  SyncBatchNorm sync{2};
};

struct Outer : torch::nn::Module {
  Outer() { register_module("typed", typed); }
  std::shared_ptr<Typed> typed = std::make_shared<Typed>();
};

TEST(ConvertSyncBatchNormTest, AMemberThatIsOfAnotherTypeIsNamedAndNothingIsChanged) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const auto net = std::make_shared<Outer>();
  try {
    convert_sync_batchnorm(ctx, net);
    ADD_FAILURE() << "it returned";
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("'typed.norm', 'typed.list.0' cannot be replaced"),
                                HasSubstr("Declare it as ddp::SyncBatchNorm")));
    EXPECT_THAT(e.what(), Not(HasSubstr("head")));
  }
  EXPECT_NE(net->typed->head[0]->as<torch::nn::BatchNorm1d>(), nullptr);
  EXPECT_EQ(net->typed->sync->context(), nullptr);
}

TEST(ConvertSyncBatchNormTest, GivesMembersThatAreSyncBatchNormsTheContext) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const auto net = std::make_shared<Net>(false);
  convert_sync_batchnorm(ctx, net);
  EXPECT_EQ(net->norm->context(), &ctx);
}

TEST(ConvertSyncBatchNormTest, ABatchNormItselfIsReplacedByWhatItReturns) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  torch::nn::BatchNorm2d norm(3);
  const auto converted = convert_sync_batchnorm(ctx, norm.ptr());
  ASSERT_NE(converted->as<SyncBatchNorm>(), nullptr);
  EXPECT_EQ(Describe(*converted), Describe(*norm));
}

}  // namespace sync_batch_norm_test
}  // namespace ddp
