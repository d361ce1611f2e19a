// A training that sleeps 10 ms in each step instead of computing; in the first 60 steps the rank
// given by the argument SLOW sleeps 15 ms (-1: no rank). Then come 61 even steps. A window has 20
// steps.
//
//   straggler_worker SLOW
#include <ddp/ddp.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

namespace {

// The forward takes a given time, as if it computed.
struct Sleeper : torch::nn::Module {
  Sleeper() : layer(register_module("layer", torch::nn::Linear(4, 4))) {}
  torch::Tensor forward(const torch::Tensor& x, std::chrono::milliseconds sleep) {
    std::this_thread::sleep_for(sleep);
    return layer(x);
  }
  torch::nn::Linear layer;
};

}  // namespace

int main(int, char** argv) {
  return ddp::run([&] {
    const ddp::Context ctx = ddp::init();
    ddp::DataParallelOptions options;
    options.straggler_every = 20;
    ddp::DistributedDataParallel<Sleeper> model(ctx, std::make_shared<Sleeper>(), options);
    const bool slow = ctx.rank() == std::stoi(argv[1]);
    for (int step = 0; step <= 120; ++step) {
      model.zero_grad();
      model(torch::ones({2, 4}), std::chrono::milliseconds(slow && step < 60 ? 15 : 10))
          .sum()
          .backward();
    }
    return 0;
  });
}
