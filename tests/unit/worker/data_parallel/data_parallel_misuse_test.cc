// Tests steps that c10d::Reducer cannot average. Each must be a clear error on every rank, and must
// not hang or give wrong gradients.
#include <ddp/distributed_data_parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "tests/unit/worker/support/heads.h"
#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace data_parallel_misuse_test {

using test::Heads;
using test::StartedRanks;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename Body>
std::string ErrorOf(const Body& body) {
  try {
    body();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

struct Switched : Heads {
  torch::Tensor forward(const torch::Tensor& x, bool use_right) {
    const torch::Tensor y = left(trunk(x));
    return use_right ? y + right(trunk(x)) : y;
  }
};

// The error comes with the next forward: only then is it certain that no more gradients come.
TEST(MisuseTest, AParameterWithoutGradientIsAnErrorUnlessItIsSearchedFor) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const auto net = std::make_shared<Switched>();
  DistributedDataParallel<Switched> model(ctx, net);
  const torch::Tensor x = torch::ones({1, 3});
  model(x, true).sum().backward();
  model(x, false).sum().backward();
  EXPECT_THAT(ErrorOf([&] { model(x, true); }),
              AllOf(HasSubstr("Expected to have finished reduction in the prior iteration"),
                    HasSubstr("find_unused_parameters")));
}

// Seen red when TORCH_DISTRIBUTED_DEBUG was not read: the error then had only numbers, no names.
TEST(MisuseTest, ItIsNamedWithTorchsVariableForDebugging) {
  constexpr char kVariable[] = "TORCH_DISTRIBUTED_DEBUG";
  if (StartedRanks(2, {{kVariable, "INFO"}}) && StartedRanks(2, {{kVariable, "DETAIL"}})) return;
  const Context ctx = init();
  const auto net = std::make_shared<Switched>();
  net->left->bias.set_requires_grad(false);  // must not shift the names
  DistributedDataParallel<Switched> model(ctx, net);
  const torch::Tensor x = torch::ones({1, 3});
  for (int step = 0; step < 2; ++step) model(x, true).sum().backward();
  model(x, false).sum().backward();
  EXPECT_THAT(ErrorOf([&] { model(x, true); }),
              AllOf(HasSubstr("right.weight"), HasSubstr("right.bias"), Not(HasSubstr("trunk")),
                    Not(HasSubstr("left"))));
}

TEST(MisuseTest, AModuleUsedOutsideOfForwardIsReadyTwiceForTheSearch) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const torch::Tensor x = torch::ones({1, 3});
  for (const bool view : {false, true}) {
    DataParallelOptions options;
    options.gradient_as_bucket_view = view;
    for (const bool search : {false, true}) {
      options.find_unused_parameters = search;
      const auto net = std::make_shared<Switched>();
      DistributedDataParallel<Switched> model(ctx, net, options);
      const torch::Tensor y = model(x, false);
      const std::string error = ErrorOf([&] {
        (y + net->right(torch::ones({1, 4}))).sum().backward();
      });
      if (search) {
        EXPECT_THAT(error, HasSubstr("Expected to mark a variable ready only once"));
      } else {
        EXPECT_EQ(error, "no error");
        EXPECT_TRUE(net->right->weight.grad().defined());
      }
    }
  }
}

TEST(MisuseTest, TwoBackwardsThroughTheSameParametersAreReadyTwice) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  struct Pair : Heads {
    std::pair<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x) {
      return {left(trunk(x)), right(trunk(x))};
    }
  };
  const auto net = std::make_shared<Pair>();
  DistributedDataParallel<Pair> model(ctx, net);
  const auto [left, right] = model(torch::ones({1, 3}));
  left.sum().backward();
  EXPECT_THAT(ErrorOf([&] { right.sum().backward(); }),
              HasSubstr("Expected to mark a variable ready only once"));
}

TEST(MisuseTest, AStaticGraphThatChangesIsAnError) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  DataParallelOptions options;
  options.static_graph = true;
  const torch::Tensor x = torch::ones({1, 3});
  for (const bool more_later : {false, true}) {
    const auto net = std::make_shared<Switched>();
    DistributedDataParallel<Switched> model(ctx, net, options);
    model(x, !more_later).sum().backward();
    const std::string error = ErrorOf([&] {
      model(x, more_later).sum().backward();
      model(x, !more_later).sum().backward();
    });
    EXPECT_THAT(error, more_later ? HasSubstr("Your training graph has changed in this iteration")
                                  : HasSubstr("Expected to have finished reduction"));
  }
}

}  // namespace data_parallel_misuse_test
}  // namespace ddp
