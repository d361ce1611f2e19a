// The cost of verify_replicas(), compared with the training steps between two calls, and the cost
// of the small collectives. Two ranks run on this machine, with Gloo and one thread each. Prints
// medians.
#include <ddp/ddp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr int kRanks = 2;
constexpr int kStepsBetween = 1000;

double MedianMs(int times, const std::function<void()>& work) {
  std::vector<double> ms;
  for (int i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                     .count());
  }
  std::sort(ms.begin(), ms.end());
  return ms[ms.size() / 2];
}

void MeasureVerify(const ddp::Context& ctx, int width) {
  namespace nn = torch::nn;
  nn::Sequential net(nn::Linear(width, width), nn::ReLU(), nn::Linear(width, width), nn::ReLU(),
                     nn::Linear(width, width));
  std::int64_t parameters = 0;
  for (const torch::Tensor& p : net->parameters()) parameters += p.numel();
  ddp::DistributedDataParallel<nn::SequentialImpl> model(ctx, net.ptr());
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01));
  const torch::Tensor input = torch::rand({64, width});
  const double step = MedianMs(5, [&] {
    model.zero_grad();
    model.forward(input).sum().backward();
    optimizer.step();
  });
  const double verify = MedianMs(9, [&] { ddp::verify_replicas(ctx, *net); });
  if (ctx.rank() != 0) return;
  std::printf("%.1f M parameters: step %.1f ms, verify_replicas %.2f ms, every %d steps %.4f %%\n",
              static_cast<double>(parameters) * 1e-6, step, verify, kStepsBetween,
              100 * verify / (step * kStepsBetween));
}

void MeasureSmall(const ddp::Context& ctx) {
  const auto print = [&](const char* what, const std::function<void()>& work) {
    const double ms = MedianMs(100, work);
    if (ctx.rank() == 0) std::printf("%-34s %.3f ms\n", what, ms);
  };
  print("barrier", [&] { ddp::barrier(ctx); });
  print("all_reduce_sum of a number", [&] { ddp::all_reduce_sum(ctx, 1.0); });
  print("all_gather_object of 20 characters",
        [&] { ddp::all_gather_object(ctx, std::string(20, 'x')); });
  const torch::Tensor tensor = torch::rand({1 << 18});
  print("all_gather of 1 MiB", [&] { ddp::all_gather(ctx, tensor); });
}

int Rank() {
  return ddp::run([] {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    torch::set_num_threads(1);
    const ddp::Context ctx = ddp::init();
    for (const int width : {1000, 2900}) MeasureVerify(ctx, width);
    MeasureSmall(ctx);
    ddp::barrier(ctx);
    return 0;
  });
}

// A port of 127.0.0.1 that stays ours, for rank 0 to share, until this process ends.
int HoldPort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    std::perror("verify_bench: bind");
    std::exit(1);
  }
  return ntohs(address.sin_port);
}

}  // namespace

int main() {
  if (std::getenv("RANK") != nullptr) return Rank();
  const std::string port = std::to_string(HoldPort());
  setenv("WORLD_SIZE", std::to_string(kRanks).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", port.c_str(), 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (fork() != 0) continue;
    setenv("RANK", std::to_string(rank).c_str(), 1);
    setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
    execl("/proc/self/exe", "verify_bench", static_cast<char*>(nullptr));
    _exit(127);
  }
  int worst = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    int status = 0;
    wait(&status);
    worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  return worst;
}
