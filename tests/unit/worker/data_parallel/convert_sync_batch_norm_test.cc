#include <ddp/ddp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/worker/data_parallel/sync_batch_norm_cases.h"
#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace sync_batch_norm_test {

using test::StartedRanks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using torch::nn::BatchNormOptions;

// Required by libtorch: the forward() of a Sequential in a Sequential must not be a template.
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

// The Sequential must call the replacement, not only register it.
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
