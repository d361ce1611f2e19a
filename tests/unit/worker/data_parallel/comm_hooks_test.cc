// Tests communication hooks and join() in cases without an equivalent in Python; parity_cases.json
// has the other cases.
#include <ddp/ddp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <vector>

#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace comm_hooks_test {

using test::StartedRanks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Linear = torch::nn::LinearImpl;

// The gradient of weight [o, i] is x[i] on this rank, whatever the weights are.
torch::Tensor GradientOf(DistributedDataParallel<Linear>& model, const torch::Tensor& x) {
  model.zero_grad();
  model(x.unsqueeze(0)).sum().backward();
  return model->weight.grad()[0].clone();
}

torch::Tensor Input(int rank, std::int64_t size) {
  return torch::randn({size}, at::make_generator<at::CPUGeneratorImpl>(
                                  std::uint64_t{20} + static_cast<std::uint64_t>(rank)));
}

std::string ErrorOf(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

// 7 parameters on 3 ranks: no equal shares.
TEST(CommHooksTest, Bfloat16IsTheMeanWithinItsRoundingAndTheSameEverywhere) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  DistributedDataParallel<Linear> model(
      ctx, std::make_shared<Linear>(torch::nn::LinearOptions(7, 1).bias(false)));
  model.register_comm_hook(bf16_compress(ctx));
  for (int step = 0; step < 3; ++step) {
    const torch::Tensor gradient = GradientOf(model, Input(ctx.rank() + 10 * step, 7));
    torch::Tensor mean = torch::zeros({7});
    torch::Tensor magnitude = torch::zeros({7});
    for (int rank = 0; rank < 3; ++rank) {
      mean += Input(rank + 10 * step, 7) / 3;
      magnitude += Input(rank + 10 * step, 7).abs() / 3;
    }
    EXPECT_TRUE(((gradient - mean).abs() <= magnitude / 128).all().item<bool>())
        << gradient << mean;
    EXPECT_FALSE(torch::equal(gradient, mean)) << "it did not travel as bfloat16";
    torch::Tensor of_rank0 = gradient.clone();
    broadcast(ctx, of_rank0);
    EXPECT_TRUE(torch::equal(gradient, of_rank0));
  }
}

TEST(CommHooksTest, AUsersHookGetsEachBucketAndItsResultIsTheGradient) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  DataParallelOptions options;
  options.bucket_cap_mb = 1e-6;
  options.first_bucket_bytes = 1;
  DistributedDataParallel<Linear> model(
      ctx, std::make_shared<Linear>(torch::nn::LinearOptions(5, 2)), options);
  std::vector<std::size_t> sizes;
  model.register_comm_hook([&](c10d::GradBucket& bucket) {
    sizes.push_back(bucket.getParameters().size());
    std::vector<torch::Tensor> tensors = {bucket.getBuffer()};
    return ctx.process_group()->allreduce(tensors)->getFuture();  // the sum, not the mean
  });
  GradientOf(model, Input(ctx.rank(), 5));  // rebuilds the buckets
  sizes.clear();
  const torch::Tensor gradient = GradientOf(model, Input(ctx.rank(), 5));
  EXPECT_TRUE(torch::equal(gradient, Input(0, 5) + Input(1, 5))) << gradient;
  EXPECT_THAT(sizes, ::testing::ElementsAre(1, 1));
}

TEST(CommHooksTest, AnErrorOfTheHookIsBackwardsAndASecondHookIsRefused) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  DistributedDataParallel<Linear> model(ctx,
                                        std::make_shared<Linear>(torch::nn::LinearOptions(5, 2)));
  model.register_comm_hook([](c10d::GradBucket&) -> c10::intrusive_ptr<c10::ivalue::Future> {
    throw std::runtime_error("the hook has had enough");
  });
  EXPECT_THAT(ErrorOf([&] { model.register_comm_hook(fp16_compress(ctx)); }),
              HasSubstr("has a communication hook already"));
  EXPECT_THAT(ErrorOf([&] { GradientOf(model, Input(0, 5)); }),
              HasSubstr("the hook has had enough"));
}

TEST(CommHooksTest, PowerSgdRefusesWhatCannotWork) {
  const Context ctx = init();
  PowerSgdOptions options;
  options.start_power_sgd_iter = 1;
  EXPECT_THAT(ErrorOf([&] { power_sgd(ctx, options); }), HasSubstr("at least 2"));
  options.use_error_feedback = options.warm_start = false;
  EXPECT_EQ(ErrorOf([&] { power_sgd(ctx, options); }), "no error");
  options.matrix_approximation_rank = 0;
  EXPECT_THAT(ErrorOf([&] { power_sgd(ctx, options); }), HasSubstr("at least 1"));
}

// PowerSGD approximates by a matrix of rank 1. This gradient has rank 1, so nothing is lost.
TEST(CommHooksTest, PowerSgdFindsAGradientOfItsOwnRankExactly) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  DistributedDataParallel<Linear> model(
      ctx, std::make_shared<Linear>(torch::nn::LinearOptions(40, 30).bias(false)));
  PowerSgdOptions options;
  options.start_power_sgd_iter = 2;
  model.register_comm_hook(power_sgd(ctx, options));
  const torch::Tensor x = Input(0, 40);
  for (int step = 0; step < 4; ++step) {
    EXPECT_TRUE(torch::allclose(GradientOf(model, x * (ctx.rank() + 1)), x * 1.5, 1e-5, 1e-5));
  }
}

TEST(JoinTest, AllStopWithTheFirstThatHasNoMoreInputs) {
  if (StartedRanks(3)) return;
  const Context ctx = init();
  DistributedDataParallel<Linear> model(ctx,
                                        std::make_shared<Linear>(torch::nn::LinearOptions(5, 2)));
  JoinOptions options;
  options.throw_on_early_termination = true;
  int steps = 0;
  const auto train = [&] {
    for (; steps < (ctx.rank() == 1 ? 3 : 9); ++steps) GradientOf(model, Input(ctx.rank(), 5));
  };
  EXPECT_THAT(ErrorOf([&] { model.join(train, options); }), HasSubstr("rank 1: no more inputs"));
  EXPECT_EQ(steps, 3);
}

TEST(JoinTest, ForwardsWithoutGradientsHaveTheirCounterpart) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  DistributedDataParallel<Linear> model(ctx,
                                        std::make_shared<Linear>(torch::nn::LinearOptions(5, 2)));
  model.join([&] {
    for (int step = 0; step < 3 * ctx.rank(); ++step) {
      GradientOf(model, Input(ctx.rank(), 5));
      const torch::NoGradGuard no_grad;
      model(Input(ctx.rank(), 5));
    }
  });
  model.verify_replicas();
  GradientOf(model, Input(ctx.rank(), 5));  // as before
}

TEST(JoinTest, DoesNotNestAndAnExceptionEndsIt) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  DistributedDataParallel<Linear> model(ctx,
                                        std::make_shared<Linear>(torch::nn::LinearOptions(5, 2)));
  EXPECT_THAT(ErrorOf([&] { model.join([&] { model.join([] {}); }); }),
              HasSubstr("join() within join()"));
  EXPECT_EQ(ErrorOf([&] { model.join([] {}); }), "no error");
}

}  // namespace comm_hooks_test
}  // namespace ddp
