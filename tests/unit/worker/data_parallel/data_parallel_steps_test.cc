// Tests different orders of forwards and backwards, and other uses of a module between them.
// Programs written for Python's class rely on them.
#include <ddp/collectives.h>
#include <ddp/distributed_data_parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/unit/worker/support/heads.h"
#include "tests/unit/worker/support/multi_rank.h"
#include "worker/src/compat/compat.h"

namespace ddp {
namespace data_parallel_steps_test {

using test::Heads;
using test::StartedRanks;

torch::Tensor Input(int step, int rank) {
  return torch::full({2, 3}, static_cast<float>(step + 2 * rank + 1)) * 0.1;
}

struct BothHeads : Heads {
  std::pair<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x) {
    const torch::Tensor y = torch::relu(trunk(x) + 1);
    return {left(y), right(y)};
  }
};

torch::Tensor Sum(const std::pair<torch::Tensor, torch::Tensor>& heads) {
  return (heads.first + 2 * heads.second).sum();
}

std::vector<torch::Tensor> Gradients(const torch::nn::Module& module) {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& p : module.parameters()) gradients.push_back(p.grad().clone());
  return gradients;
}

// Averages the gradients of `loss` over the ranks by hand. Leaves no gradients in `module`.
template <typename Loss>
std::vector<torch::Tensor> ByHand(const Context& ctx, torch::nn::Module& module, const Loss& loss) {
  for (torch::Tensor& p : module.parameters()) p.mutable_grad().reset();
  loss().backward();
  std::vector<torch::Tensor> gradients = Gradients(module);
  for (torch::Tensor& gradient : gradients) all_reduce_mean(ctx, gradient);
  for (torch::Tensor& p : module.parameters()) p.mutable_grad().reset();
  return gradients;
}

void ExpectGradients(const torch::nn::Module& module, const std::vector<torch::Tensor>& expected,
                     const std::string& when) {
  const auto named = module.named_parameters();
  ASSERT_EQ(named.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(named[i].value().grad().defined()) << named[i].key() << " " << when;
    EXPECT_TRUE(torch::allclose(named[i].value().grad(), expected[i], 1e-5, 1e-6))
        << named[i].key() << " " << when;
  }
}

TEST(StepsTest, AResultMayBeIgnored) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  for (const bool search : {false, true}) {
    DataParallelOptions options;
    options.find_unused_parameters = search;
    const auto net = std::make_shared<BothHeads>();
    DistributedDataParallel<BothHeads> model(ctx, net, options);
    // Before the first backward() a forward has no collective: one rank may evaluate alone.
    for (int step = 0; step < 4 + 3 * ctx.rank(); ++step) model(Input(step, ctx.rank()));
    for (int step = 0; step < 4; ++step) {
      const torch::Tensor x = Input(step, ctx.rank());
      const auto expected = ByHand(ctx, *net, [&] { return Sum(net->forward(x)); });
      Sum(model(x)).backward();
      ExpectGradients(*net, expected, "in step " + std::to_string(step));
      model(x);
      model.zero_grad();
    }
  }
}

TEST(StepsTest, TheFirstResultOfAStaticGraphMayBeIgnoredOrIsAnError) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  DataParallelOptions options;
  options.static_graph = true;
  const auto net = std::make_shared<BothHeads>();
  DistributedDataParallel<BothHeads> model(ctx, net, options);
  std::vector<std::vector<torch::Tensor>> expected;
  for (int step = 0; step < 4; ++step) {
    expected.push_back(
        ByHand(ctx, *net, [&] { return Sum(net->forward(Input(step, ctx.rank()))); }));
  }
  model(Input(9, ctx.rank()));
  for (int step = 0; step < 4; ++step) {
    const torch::Tensor loss = Sum(model(Input(step, ctx.rank())));
    if (!compat::kNewerPythonClass) {  // 1.13, like its Python class: the graph has changed
      EXPECT_THROW(loss.backward(), std::exception);
      return;
    }
    loss.backward();
    ExpectGradients(*net, expected[step], "in step " + std::to_string(step));
    model(Input(9, ctx.rank()));
    model.zero_grad();
  }
}

TEST(StepsTest, OneForwardMayBeFollowedByABackwardFromEachOfItsResults) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  // The heads share no trunk, because a shared trunk would get its gradient twice: see MisuseTest.
  struct Apart : Heads {
    std::pair<torch::Tensor, torch::Tensor> forward(const torch::Tensor& x) {
      return {left(x), right(trunk(x.narrow(1, 0, 3)))};
    }
  };
  for (const bool view : {false, true}) {
    DataParallelOptions options;
    options.gradient_as_bucket_view = view;
    const auto net = std::make_shared<Apart>();
    DistributedDataParallel<Apart> model(ctx, net, options);
    for (int step = 0; step < 3; ++step) {
      const torch::Tensor x = torch::cat({Input(step, ctx.rank()), Input(0, 1)}, 1).narrow(1, 0, 4);
      const auto expected = ByHand(ctx, *net, [&] { return Sum(net->forward(x)); });
      const auto [left, right] = model(x);
      left.sum().backward();
      (2 * right).sum().backward();
      ExpectGradients(*net, expected, "in step " + std::to_string(step));
      model.zero_grad();
    }
  }
}

struct Normed : torch::nn::Module {
  Normed()
      : layer(register_module("layer", torch::nn::Linear(3, 4))),
        norm(register_module("norm", torch::nn::BatchNorm1d(4))) {}
  torch::Tensor forward(const torch::Tensor& x) { return norm(layer(x)); }
  torch::nn::Linear layer;
  torch::nn::BatchNorm1d norm;
};

// Like the discriminator of a GAN. Seen red when buffers were broadcast into the tensors that
// autograd watches: "modified by an inplace operation".
TEST(StepsTest, TwoForwardsMayShareOneBackwardAlsoWithBuffers) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const auto net = std::make_shared<Normed>();
  DistributedDataParallel<Normed> model(ctx, net);
  for (int step = 0; step < 3; ++step) {
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(
        static_cast<std::uint64_t>(10 * step + ctx.rank()));
    const torch::Tensor real = torch::randn({4, 3}, generator);
    const torch::Tensor fake = torch::randn({4, 3}, generator);
    const auto expected = ByHand(ctx, *net, [&] {
      return net->forward(real).pow(3).sum() - net->forward(fake).pow(3).sum();
    });
    const torch::Tensor of_real = model(real);
    const torch::Tensor of_fake = model(fake);
    (of_real.pow(3).sum() - of_fake.pow(3).sum()).backward();
    ExpectGradients(*net, expected, "in step " + std::to_string(step));
    model.zero_grad();
  }
}

TEST(StepsTest, TheModuleMayBeUsedWithoutItsWrapperInBetween) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  for (const bool view : {false, true}) {
    DataParallelOptions options;
    options.gradient_as_bucket_view = view;
    const auto net = std::make_shared<BothHeads>();
    DistributedDataParallel<BothHeads> model(ctx, net, options);
    for (int step = 0; step < 3; ++step) {
      const torch::Tensor x = Input(step, ctx.rank());
      const torch::Tensor y = Input(step + 7, ctx.rank());
      const auto expected =
          ByHand(ctx, *net, [&] { return Sum(net->forward(x)) + Sum(net->forward(y)); });
      Sum(model.module().forward(x)).backward();  // adds to the local gradients alone
      Sum(model(y)).backward();
      ExpectGradients(*net, expected, "in step " + std::to_string(step));
      model.zero_grad();
    }
  }
}

TEST(StepsTest, TheWrapperMayBeMadeAnew) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  const auto net = std::make_shared<BothHeads>();
  for (int life = 0; life < 3; ++life) {
    DistributedDataParallel<BothHeads> model(ctx, net);
    for (int step = 0; step < 3; ++step) {
      const torch::Tensor x = Input(step + life, ctx.rank());
      const auto expected = ByHand(ctx, *net, [&] { return Sum(net->forward(x)); });
      Sum(model(x)).backward();
      ExpectGradients(*net, expected, "in step " + std::to_string(step));
      model.zero_grad();
    }
    const torch::Tensor x = Input(life, ctx.rank());
    if (life == 1) Sum(model(x));  // the result of its last forward is ignored
  }
  net->forward(Input(0, ctx.rank())).first.sum().backward();  // no hooks are left
}

TEST(StepsTest, AResultMayHaveTensorsThatNeedNoGradientAndNewOnes) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  struct Extras : Heads {
    std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> forward(const torch::Tensor& x) {
      const torch::Tensor y = left(trunk(x)) + right(trunk(x));
      return {y, y.detach() * 2, torch::zeros({2}, torch::requires_grad())};
    }
  };
  for (const bool static_graph : {false, true}) {
    DataParallelOptions options;
    options.find_unused_parameters = !static_graph;
    options.static_graph = static_graph;
    const auto net = std::make_shared<Extras>();
    DistributedDataParallel<Extras> model(ctx, net, options);
    for (int step = 0; step < 3; ++step) {
      const torch::Tensor x = Input(step, ctx.rank());
      const auto expected =
          ByHand(ctx, *net, [&] { return std::get<0>(net->forward(x)).pow(2).sum(); });
      const auto [y, detached, fresh] = model(x);
      EXPECT_FALSE(detached.requires_grad());
      EXPECT_TRUE(fresh.is_leaf() && fresh.requires_grad());
      (y.pow(2).sum() + fresh.sum()).backward();
      ExpectGradients(*net, expected, "in step " + std::to_string(step));
      EXPECT_TRUE(fresh.grad().defined());
      model.zero_grad();
    }
  }
}

// One parameter: with more, c10d::Reducer of 1.13 fails, in Python too.
TEST(StepsTest, BackwardMayMakeAGraphOfTheGradients) {
  if (StartedRanks(2)) return;
  const Context ctx = init();
  struct Square : torch::nn::Module {
    Square() : p(register_parameter("p", torch::tensor(1.5f))) {}
    torch::Tensor forward(float x) { return p.pow(2) * x; }
    torch::Tensor p;
  };
  const auto net = std::make_shared<Square>();
  DistributedDataParallel<Square> model(ctx, net);
  for (int step = 1; step <= 6; ++step) {
    model(2.0f * ctx.rank() + 1).backward({}, /*retain_graph=*/true, /*create_graph=*/true);
    EXPECT_FLOAT_EQ(net->p.grad().item<float>(), 2 * 1.5f * 2) << "in step " << step;
    EXPECT_TRUE(net->p.grad().requires_grad());
    model.zero_grad();
  }
}

}  // namespace data_parallel_steps_test
}  // namespace ddp
