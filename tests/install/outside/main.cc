// Fits y = 3 x; each rank has different data. Prints "rank R of N: W"; W is the weight.
#include <ddp/ddp.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cstdio>
#include <memory>

int main() {
  return ddp::run([] {
    ddp::Context ctx = ddp::init();
    auto net = std::make_shared<torch::nn::LinearImpl>(torch::nn::LinearOptions(1, 1).bias(false));
    ddp::DistributedDataParallel<torch::nn::LinearImpl> model(ctx, net);
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    ddp::DistributedSampler sampler(64, ctx.world_size(), ctx.rank());
    for (std::size_t epoch = 0; epoch < 20; ++epoch) {
      sampler.set_epoch(epoch);
      while (const auto indices = sampler.next(8)) {
        const auto x =
            torch::tensor(std::vector<double>(indices->begin(), indices->end()), torch::kFloat32)
                .div(64)
                .unsqueeze(1);
        model.zero_grad();
        (model(x) - 3 * x).square().mean().backward();
        optimizer.step();
      }
    }
    std::printf("rank %d of %d: %.9g\n", ctx.rank(), ctx.world_size(), net->weight.item<double>());
    return 0;
  });
}
