// The C++ worker of recovery_bench.py: trains MNIST's net on made-up images, goes on from the
// newest snapshot in memory, and tells when the first step that it makes is done, by a line
// "generation rank pid nanoseconds" of CLOCK_MONOTONIC.
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

#include "worker/examples/mnist/net.h"

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

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 64;
  return ddp::run([&] {
    const ddp::Context ctx = ddp::init();
    ctx.report_phase("model");
    torch::manual_seed(1);
    const auto net = std::make_shared<mnist::Net>();
    ddp::DistributedDataParallel<mnist::Net> model(ctx, net);
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
    const torch::Tensor images = torch::randn({32, 1, 28, 28});
    const torch::Tensor target = torch::zeros({32}, torch::kLong);

    const ddp::CheckpointParts parts(model, optimizer);
    ddp::Checkpointer checkpointer(ctx, "");
    ddp::State state;
    if (const auto found = checkpointer.load_latest(parts)) state = *found;
    if (ctx.restart_count() > 0 && state.step == 0) std::abort();  // there is a snapshot
    for (bool first = true;; first = false) {
      model.zero_grad();
      torch::nll_loss(model.forward(images), target).backward();
      optimizer.step();
      ++state.step;
      if (first) Tell(argv[1], ctx);
      checkpointer.step(state, parts);
      usleep(20'000);  // leaves the box to what is measured next
    }
    return 0;
  });
}
