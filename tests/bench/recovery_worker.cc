// The C++ worker of recovery_bench.py and ettr_bench.py: trains MNIST's net on made-up images. It
// continues from the newest snapshot in memory. When its first step is done it writes a line
// "generation rank pid nanoseconds" with CLOCK_MONOTONIC.
//
//   recovery_worker FILE [PROGRESS STEP_MS]
//
// With PROGRESS, it appends "begin RANK PID" to this file as soon as it has a rank. Rank 0 also
// appends "step NUMBER NANOSECONDS" after each step. A step then lasts STEP_MS: the worker sleeps
// for the rest of it, like a process that waits for its GPU.
#include <ddp/ddp.h>
#include <fcntl.h>
#include <time.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "worker/examples/mnist/net.h"

namespace {

std::string Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::to_string(static_cast<long long>(now.tv_sec) * 1000000000 + now.tv_nsec);
}

void Append(const char* path, std::string line) {
  line += '\n';
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  close(file);
}

void Begin(const char* progress, const std::string& rank) {
  Append(progress, "begin " + rank + " " + std::to_string(getpid()));
}

void Tell(const char* path, const ddp::Context& ctx) {
  Append(path, std::to_string(ctx.restart_count()) + " " + std::to_string(ctx.rank()) + " " +
                   std::to_string(getpid()) + " " + Now());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) return 64;
  const char* const progress = argc == 4 ? argv[2] : nullptr;
  const std::chrono::milliseconds step_time(argc == 4 ? std::atoi(argv[3]) : 0);
  const char* const rank = std::getenv("RANK");  // a standby has none
  bool began = progress == nullptr;
  if (!began && rank != nullptr) {
    Begin(progress, rank);
    began = true;
  }
  return ddp::run_in_place([&](const ddp::Context& ctx) {
    if (!std::exchange(began, true)) Begin(progress, std::to_string(ctx.rank()));
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
    if (!progress && ctx.restart_count() > 0 && state.step == 0)
      std::abort();  // there is a snapshot
    auto step_end = std::chrono::steady_clock::now();
    for (bool first = true;; first = false) {
      model.zero_grad();
      torch::nll_loss(model.forward(images), target).backward();
      optimizer.step();
      ++state.step;
      if (first) Tell(argv[1], ctx);
      if (progress != nullptr && ctx.rank() == 0) {
        Append(progress, "step " + std::to_string(state.step) + " " + Now());
      }
      checkpointer.step(state, parts);
      if (progress == nullptr) {
        usleep(20'000);  // leaves the machine to the restart that is measured
      } else {
        step_end = std::max(step_end + step_time, std::chrono::steady_clock::now());
        std::this_thread::sleep_until(step_end);
      }
    }
    return 0;
  });
}
