// A training whose ranks sleep in each step instead of computing, and one rank sleeps longer. In
// the first 60 steps rank SLOW sleeps 15 ms (-1: no rank), the others 10 ms. Then come 61 steps in
// which all ranks sleep equally long. The library compares the ranks every 20 steps
// (straggler_every).
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
