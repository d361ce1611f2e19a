// Tests activation checkpointing: a part of the module keeps no intermediate results. Inside of
// backward this part runs forward again, and then a backward of its own. libtorch supports this for
// Python only; in C++ it takes a few lines.
#include <ddp/collectives.h>
#include <ddp/distributed_data_parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/worker/support/multi_rank.h"

namespace ddp {
namespace data_parallel_checkpointing_test {

using test::StartedRanks;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class Again : public torch::autograd::Function<Again> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, const torch::Tensor& x,
                               const torch::nn::Linear& layer) {
    ctx->save_for_backward({x});
    ctx->saved_data["layer"] = reinterpret_cast<std::int64_t>(&*layer);  // outlives backward
    const torch::NoGradGuard no_grad;
    return torch::nn::Linear(layer)(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& gradients) {
    auto* const layer = reinterpret_cast<torch::nn::LinearImpl*>(ctx->saved_data["layer"].toInt());
    const torch::AutoGradMode gradient_mode(true);
    const torch::Tensor x = ctx->get_saved_variables()[0].detach().requires_grad_();
    torch::autograd::backward({layer->forward(x)}, {gradients[0]});
    return {x.grad(), torch::Tensor()};
  }
};

struct Checkpointed : torch::nn::Module {
  explicit Checkpointed(int times, bool tied = false)
      : first(register_module("first", torch::nn::Linear(3, 3))),
        layer(register_module("layer", torch::nn::Linear(3, 3))),
        unused(register_module("unused", torch::nn::Linear(1, 1))),
        times(times),
        tied(tied) {
    if (tied) first->weight.set_requires_grad(false);
  }
  torch::Tensor forward(const torch::Tensor& x, bool checkpoint = true) {
    torch::Tensor y = tied ? torch::linear(x, layer->weight, first->bias) : first(x);
    for (int i = 0; i < times; ++i) y = checkpoint ? Again::apply(y, layer) : layer(y);
    return y;
  }
  torch::nn::Linear first, layer, unused;
  const int times;
  const bool tied;  // the layers share their weight
};

// Checks that the gradients of three steps are the mean over the ranks; returns the error, if any.
std::string Train(const Context& ctx, const std::shared_ptr<Checkpointed>& net,
                  const DataParallelOptions& options) {
  DistributedDataParallel<Checkpointed> model(ctx, net, options);
  for (int step = 0; step < 3; ++step) {
    const torch::Tensor x = torch::full({2, 3}, step + 2.0f * ctx.rank() + 1);
    model.zero_grad();
    net->forward(x, false).pow(2).sum().backward();
    std::vector<torch::Tensor> expected;
    for (const torch::Tensor& p : {net->first->bias, net->layer->weight, net->layer->bias}) {
      expected.push_back(p.grad().clone());
      all_reduce_mean(ctx, expected.back());
    }
    model.zero_grad();
    try {
      model(x).pow(2).sum().backward();
    } catch (const std::exception& e) {
      return e.what();
    }
    EXPECT_TRUE(torch::allclose(net->first->bias.grad(), expected[0])) << "step " << step;
    EXPECT_TRUE(torch::allclose(net->layer->weight.grad(), expected[1])) << "step " << step;
    EXPECT_TRUE(torch::allclose(net->layer->bias.grad(), expected[2])) << "step " << step;
  }
  return "";
}

TEST(ActivationCheckpointingTest, AStaticGraphAllowsItOnceAndTwiceAndWithSharedWeights) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  for (const bool view : {false, true}) {
    DataParallelOptions options;
    options.static_graph = true;
    options.gradient_as_bucket_view = view;
    EXPECT_EQ(Train(ctx, std::make_shared<Checkpointed>(1), options), "");
    EXPECT_EQ(Train(ctx, std::make_shared<Checkpointed>(2), options), "");
    EXPECT_EQ(Train(ctx, std::make_shared<Checkpointed>(2, true), options), "");
    options.find_unused_parameters = true;  // no effect with a static graph
    EXPECT_EQ(Train(ctx, std::make_shared<Checkpointed>(2), options), "");
  }
}

TEST(ActivationCheckpointingTest, WithoutOneItIsAllowedOnceAndWithNothingUnused) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const auto all_used = [](int times) {
    auto net = std::make_shared<Checkpointed>(times);
    for (torch::Tensor& p : net->unused->parameters()) p.set_requires_grad(false);
    return net;
  };
  for (const bool view : {false, true}) {
    DataParallelOptions options;
    options.gradient_as_bucket_view = view;
    EXPECT_EQ(Train(ctx, all_used(1), options), "");
    const auto twice = HasSubstr("Expected to mark a variable ready only once");
    EXPECT_THAT(Train(ctx, all_used(2), options), twice);
    // The search does not find the parameters of the part that runs again. libtorch 2.x words the
    // error differently.
    options.find_unused_parameters = true;
    EXPECT_THAT(Train(ctx, all_used(1), options),
                AnyOf(twice, HasSubstr("gradient which is undefined, but still allreduced")));
  }
}

}  // namespace data_parallel_checkpointing_test
}  // namespace ddp
