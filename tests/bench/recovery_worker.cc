// The C++ worker of recovery_bench.py: trains the model of recovery_worker.py, and tells when its
// first step of a generation is done, by a line "generation rank pid nanoseconds" of
// CLOCK_MONOTONIC.
//
//   recovery_worker FILE
#include <ddp/ddp.h>
#include <fcntl.h>
#include <time.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace {

void Tell(const char* path, const ddp::Context& ctx) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  char line[128];
  const int size =
      std::snprintf(line, sizeof line, "%d %d %d %lld\n", ctx.restart_count(), ctx.rank(), getpid(),
                    static_cast<long long>(now.tv_sec) * 1000000000 + now.tv_nsec);
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (write(file, line, static_cast<std::size_t>(size)) != size) std::abort();
  close(file);
}

struct Perceptron : torch::nn::Module {
  Perceptron()
      : first(register_module("first", torch::nn::Linear(784, 1024))),
        second(register_module("second", torch::nn::Linear(1024, 1024))),
        last(register_module("last", torch::nn::Linear(1024, 10))) {}
  torch::Tensor forward(const torch::Tensor& images) {
    return last(torch::relu(second(torch::relu(first(images)))));
  }
  torch::nn::Linear first, second, last;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  return ddp::run([&] {
    const ddp::Context ctx = ddp::init();
    ctx.report_phase("model");
    torch::manual_seed(1);
    const auto net = std::make_shared<Perceptron>();
    ddp::DistributedDataParallel<Perceptron> model(ctx, net);
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01));
    const torch::Tensor images = torch::randn({64, 784});
    const torch::Tensor target = torch::zeros({64}, torch::kLong);
    ctx.report_phase("first_step");
    for (std::int64_t step = 1;; ++step) {
      model.zero_grad();
      torch::cross_entropy_loss(model.forward(images), target).backward();
      optimizer.step();
      ctx.report_step(step);
      if (step == 1) Tell(argv[1], ctx);
      usleep(20'000);  // leaves the box to what is measured next
    }
    return 0;
  });
}
