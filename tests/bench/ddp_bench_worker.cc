// One contestant of ddp_bench.py in C++: trains a model on one batch, and prints how long each step
// took. ddp_bench_worker.py does the same in Python.
//
//   ddp_bench_worker MODEL CONTESTANT WARMUP STEPS [BACKEND DEVICE]     under a launcher
//
// BACKEND and DEVICE are those of ddp::Options, by default "gloo" and "cpu". On a GPU a step ends
// when the device has done all its work.
//
// Rank 0 prints one line of JSON:
//   steps_ms    the length of each of STEPS steps, after WARMUP others
//   loss        of the last step; equal losses show that contestants computed the same
//   parameters  the number of the model's parameters
//   comm_ms     how long communication went on in a step; 0: not measured
//   hidden_ms   how much of this communication went on while gradients were computed
//   sent_bytes  sent by this process over TCP in each step
#include <ddp/ddp.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <torch/cuda.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "worker/examples/mnist/net.h"

namespace {

using torch::Tensor;

constexpr std::int64_t kBatch = 64;
constexpr double kLearningRate = 0.01;
constexpr std::uint64_t kSeed = 7;

// What differs between the contestants of one model.
struct Contestant {
  std::function<Tensor(const Tensor&)> forward;
  std::function<void()> zero_grad;
  std::function<void()> after_backward = [] {};
  std::function<ddp::DataParallelStatistics()> statistics = [] {
    return ddp::DataParallelStatistics();
  };
};

// The simplest way: one all-reduce for each parameter.
void AverageGradients(const ddp::Context& ctx, const std::vector<Tensor>& parameters) {
  for (const Tensor& parameter : parameters) {
    std::vector<Tensor> gradient = {parameter.grad()};
    ctx.process_group()->allreduce(gradient)->wait();
    gradient[0].div_(ctx.world_size());
  }
}

// A parameter server: rank 0 has all gradients, averages, and gives the result to everybody.
void AverageOnRank0(const ddp::Context& ctx, const std::vector<Tensor>& parameters) {
  for (const Tensor& parameter : parameters) {
    std::vector<Tensor> gradient = {parameter.grad()};
    std::vector<std::vector<Tensor>> gathered;
    if (ctx.rank() == 0) {
      gathered.emplace_back();
      for (int i = 0; i < ctx.world_size(); ++i) {
        gathered[0].push_back(torch::empty_like(gradient[0]));
      }
    }
    ctx.process_group()->gather(gathered, gradient)->wait();
    if (ctx.rank() == 0) {
      gradient[0].zero_();
      for (const Tensor& one : gathered[0]) gradient[0].add_(one);
      gradient[0].div_(ctx.world_size());
    }
    ctx.process_group()->broadcast(gradient)->wait();
  }
}

// The bytes that this process has sent over all its connections so far, counted by the kernel.
std::int64_t SentBytes() {
  std::int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    tcp_info info = {};
    socklen_t size = sizeof(info);
    const int fd = std::stoi(entry.path().filename());
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) {
      bytes += static_cast<std::int64_t>(info.tcpi_bytes_sent);
    }
  }
  return bytes;
}

// PowerSGD compresses from the third step on, which is in the warm-up.
ddp::CommHook Hook(const std::string& name, const ddp::Context& ctx) {
  if (name == "fp16") return ddp::fp16_compress(ctx);
  if (name == "bf16") return ddp::bf16_compress(ctx);
  if (name != "power-sgd") return nullptr;
  ddp::PowerSgdOptions options;
  options.start_power_sgd_iter = 2;
  return ddp::power_sgd(ctx, options);
}

template <typename Module>
Contestant MakeContestant(const std::string& name, const ddp::Context& ctx,
                          const std::shared_ptr<Module>& net) {
  Contestant result;
  const ddp::CommHook hook = Hook(name, ctx);
  if (name == "ddp" || name == "ddp-view" || hook != nullptr) {
    ddp::DataParallelOptions options;
    options.gradient_as_bucket_view = name == "ddp-view";
    options.statistics_sample_rate = 1;
    const auto model = std::make_shared<ddp::DistributedDataParallel<Module>>(ctx, net, options);
    if (hook != nullptr) model->register_comm_hook(hook);
    result.forward = [model](const Tensor& input) { return model->forward(input); };
    result.zero_grad = [model] { model->zero_grad(); };
    result.statistics = [model] { return model->statistics(); };
    return result;
  }
  const std::vector<Tensor> parameters = net->parameters();
  result.forward = [net](const Tensor& input) -> Tensor { return net->forward(input); };
  result.zero_grad = [parameters] {
    for (const Tensor& parameter : parameters) parameter.mutable_grad().reset();
  };
  if (name == "naive") {
    result.after_backward = [&ctx, parameters] { AverageGradients(ctx, parameters); };
  } else if (name == "master") {
    result.after_backward = [&ctx, parameters] { AverageOnRank0(ctx, parameters); };
  } else if (name != "compute") {
    throw std::runtime_error("no contestant " + name);
  }
  return result;
}

struct Turn {
  std::vector<double> steps_ms;
  double loss = 0;
  double comm_ms = 0;
  double hidden_ms = 0;
  std::int64_t parameters = 0;
  std::int64_t sent_bytes = 0;  // in a step
};

double Ms(std::chrono::duration<double, std::milli> duration) { return duration.count(); }

// The mean of `field` over the steps after the warm-up, computed from means over all steps.
// `before`: the statistics at the end of the warm-up. A step is measured when the next one begins.
double MeanSince(const ddp::DataParallelStatistics& before, const ddp::DataParallelStatistics& now,
                 std::chrono::nanoseconds ddp::DataParallelStatistics::*field) {
  const auto steps = now.measured_steps - before.measured_steps;
  if (steps == 0) return 0;
  const auto sum = [&](const ddp::DataParallelStatistics& s) {
    return Ms(s.*field) * static_cast<double>(s.measured_steps);
  };
  return (sum(now) - sum(before)) / static_cast<double>(steps);
}

template <typename Module>
Turn Train(const ddp::Context& ctx, const std::shared_ptr<Module>& net, const std::string& name,
           std::vector<std::int64_t> shape, int warmup, int steps) {
  net->to(ctx.device());
  Contestant contestant = MakeContestant(name, ctx, net);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(kLearningRate));
  torch::manual_seed(kSeed + 1 + static_cast<std::uint64_t>(ctx.rank()));
  shape.insert(shape.begin(), kBatch);
  const Tensor input = torch::rand(shape).to(ctx.device());
  const Tensor target = torch::randint(10, {kBatch}).to(ctx.device());

  Turn turn;
  Tensor loss;
  ddp::DataParallelStatistics before;
  std::int64_t sent_before = 0;
  for (int step = 0; step < warmup + steps; ++step) {
    if (step == warmup) {
      before = contestant.statistics();
      sent_before = SentBytes();
    }
    const auto start = std::chrono::steady_clock::now();
    contestant.zero_grad();
    loss = torch::nll_loss(contestant.forward(input), target);
    loss.backward();
    contestant.after_backward();
    optimizer.step();
    if (ctx.device().is_cuda()) torch::cuda::synchronize(ctx.device().index());
    if (step >= warmup) turn.steps_ms.push_back(Ms(std::chrono::steady_clock::now() - start));
  }
  using Statistics = ddp::DataParallelStatistics;
  const Statistics now = contestant.statistics();
  turn.comm_ms = MeanSince(before, now, &Statistics::communication);
  turn.hidden_ms = MeanSince(before, now, &Statistics::overlap);
  turn.sent_bytes = (SentBytes() - sent_before) / steps;
  turn.loss = loss.item<double>();
  for (const Tensor& p : net->parameters()) turn.parameters += p.numel();
  return turn;
}

// Makes the layers one after the other. As arguments of one call they would be made in any order,
// and get other random numbers.
std::shared_ptr<torch::nn::SequentialImpl> MakePerceptron(std::int64_t width) {
  torch::nn::Sequential net;
  for (int layer = 0; layer < 3; ++layer) {
    net->push_back(torch::nn::Linear(width, width));
    net->push_back(torch::nn::ReLU());
  }
  net->push_back(torch::nn::Linear(width, 10));
  net->push_back(torch::nn::LogSoftmax(1));
  return net.ptr();
}

Turn TrainModel(const ddp::Context& ctx, const std::string& model, const std::string& contestant,
                int warmup, int steps) {
  torch::manual_seed(kSeed);
  if (model == "mlp-3m") {
    return Train(ctx, MakePerceptron(1000), contestant, {1000}, warmup, steps);
  }
  if (model == "mlp-25m") {
    return Train(ctx, MakePerceptron(2900), contestant, {2900}, warmup, steps);
  }
  if (model == "mnist") {
    return Train(ctx, std::make_shared<mnist::Net>(), contestant, {1, 28, 28}, warmup, steps);
  }
  throw std::runtime_error("no model " + model);
}

void Print(const Turn& turn) {
  std::printf("{\"steps_ms\": [");
  for (std::size_t i = 0; i < turn.steps_ms.size(); ++i) {
    std::printf("%s%.4f", i == 0 ? "" : ", ", turn.steps_ms[i]);
  }
  std::printf(
      "], \"loss\": %.9g, \"parameters\": %lld, \"comm_ms\": %.4f, \"hidden_ms\": %.4f, "
      "\"sent_bytes\": %lld}\n",
      turn.loss, static_cast<long long>(turn.parameters), turn.comm_ms, turn.hidden_ms,
      static_cast<long long>(turn.sent_bytes));
}

}  // namespace

int main(int argc, char** argv) {
  return ddp::run([&] {
    if (argc != 5 && argc != 7) {
      throw std::runtime_error(
          "usage: ddp_bench_worker MODEL CONTESTANT WARMUP STEPS [BACKEND DEVICE]");
    }
    torch::set_num_threads(1);
    torch::set_num_interop_threads(1);
    ddp::Options options;
    options.backend = argc == 7 ? argv[5] : "gloo";
    options.device = argc == 7 ? argv[6] : "cpu";
    const ddp::Context ctx = ddp::init(options);
    const Turn turn = TrainModel(ctx, argv[1], argv[2], std::stoi(argv[3]), std::stoi(argv[4]));
    if (ctx.rank() == 0) Print(turn);
    ddp::barrier(ctx);
    return 0;
  });
}
