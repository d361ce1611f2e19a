// The C++ worker of recovery_bench.py and ettr_bench.py: trains MNIST's net on made-up images. It
// continues from the newest snapshot in memory.
//
//   recovery_worker FILE [STEP_MS]
//
// Appends "begin RANK PID" to FILE as soon as it has a rank, and after each step
// "step NUMBER NANOSECONDS GENERATION RANK PID" with CLOCK_MONOTONIC. With STEP_MS, a step lasts
// this long: the worker sleeps for the rest of it, like a process that waits for its GPU. In its
// fifth step each process takes RECOVERY_MEMORY_MB of memory, if that is set. While there is a file
// FILE.slow, the worker also sleeps 0.1 s after each step.
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
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "worker/examples/mnist/net.h"

namespace {

void Append(const char* path, std::string line) {
  line += '\n';
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  close(file);
}

void Begin(const char* path, const std::string& rank) {
  Append(path, "begin " + rank + " " + std::to_string(getpid()));
}

void TellStep(const char* path, const ddp::Context& ctx, std::int64_t step) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  Append(path, "step " + std::to_string(step) + " " +
                   std::to_string(static_cast<long long>(now.tv_sec) * 1000000000 + now.tv_nsec) +
                   " " + std::to_string(ctx.generation()) + " " + std::to_string(ctx.rank()) + " " +
                   std::to_string(getpid()));
}

// Leaves the CPUs to the standbys while they load. The benchmark removes the file before a kill.
void SleepIfSlow(const std::string& file) {
  if (access(file.c_str(), F_OK) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

void TakeMemory() {
  static int steps = 0;
  static std::string memory;
  const char* const megabytes = std::getenv("RECOVERY_MEMORY_MB");
  if (++steps == 5 && megabytes != nullptr)
    memory.assign(std::size_t(std::atol(megabytes)) << 20, 'm');
}

struct Data {
  torch::Tensor images = torch::randn({32, 1, 28, 28});
  torch::Tensor target = torch::zeros({32}, torch::kLong);
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 64;
  const char* const path = argv[1];
  const std::chrono::milliseconds step_time(argc == 3 ? std::atoi(argv[2]) : 0);
  const std::string slow = std::string(path) + ".slow";
  const char* const rank = std::getenv("RANK");  // a standby has none
  bool began = rank != nullptr;
  if (began) Begin(path, rank);
  std::optional<Data> data;  // outlives a generation
  return ddp::run_in_place([&](ddp::Context& ctx) {
    if (!std::exchange(began, true)) Begin(path, std::to_string(ctx.rank()));
    ctx.report_phase("model");
    torch::manual_seed(1);
    if (!data) data.emplace();
    const auto net = std::make_shared<mnist::Net>();
    ddp::DistributedDataParallel<mnist::Net> model(ctx, net);
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));

    const ddp::CheckpointParts parts(model, optimizer);
    ddp::Checkpointer checkpointer(ctx, "");
    ddp::State state;
    if (const auto found = checkpointer.load_latest(parts)) state = *found;
    auto step_end = std::chrono::steady_clock::now();
    for (;;) {
      model.zero_grad();
      torch::nll_loss(model.forward(data->images), data->target).backward();
      {
        const ddp::OptimizerStep scope(ctx);
        optimizer.step();
      }
      TellStep(path, ctx, ++state.step);
      checkpointer.step(state, parts);
      TakeMemory();
      SleepIfSlow(slow);
      if (step_time.count() == 0) continue;
      step_end = std::max(step_end + step_time, std::chrono::steady_clock::now());
      std::this_thread::sleep_until(step_end);
    }
    return 0;
  });
}
