#include "worker/src/run/warm_up.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <vector>

#include "worker/contract/control.h"
#include "worker/contract/environment.h"
#include "worker/src/agent/launch_environment.h"
#include "worker/src/group/process_group.h"

namespace ddp::internal {
namespace {

void MakeDeviceContext(const Options& options) {
  LaunchEnvironment env;
  const char* const local_rank = std::getenv(ddprun::env::kLocalRank);
  if (local_rank == nullptr) return;
  env.local_rank = static_cast<int>(ddprun::control::ParseNumber(local_rank).value_or(0));
  const c10::Device device = ChooseDevice(options.device, ChooseBackend(options.backend), env);
  if (device.is_cuda()) torch::zeros({1}, device);
}

// A training step of a small net with the usual kinds of layers. In every process, the first use of
// a kind is slow: the code is paged in, oneDNN compiles its kernels, autograd starts its threads.
// Uses its own generator, because the program's must not change.
void TrainSmallNet() {
  constexpr std::int64_t kBatch = 16, kChannels = 8, kClasses = 4;
  const at::Generator generator = at::detail::createCPUGenerator();
  const auto parameter = [&](at::IntArrayRef sizes) {
    return torch::empty(sizes).uniform_(-1, 1, generator).requires_grad_();
  };
  const torch::Tensor filters = parameter({kChannels, 1, 5, 5});
  const torch::Tensor scale = parameter({kChannels}), shift = parameter({kChannels});
  const torch::Tensor weight = parameter({kClasses, kChannels * 4}), bias = parameter({kClasses});
  torch::Tensor x = torch::randn({kBatch, 1, 8, 8}, generator);
  x = torch::max_pool2d(torch::conv2d(x, filters), 2);
  x = torch::relu(torch::batch_norm(x, scale, shift, torch::zeros({kChannels}),
                                    torch::ones({kChannels}), true, 0.1, 1e-5, false));
  x = torch::log_softmax(torch::linear(x.flatten(1), weight, bias), 1);
  torch::nll_loss(x, torch::zeros({kBatch}, torch::kLong)).backward();
  const std::vector<torch::Tensor> parameters = {filters, scale, shift, weight, bias};
  torch::optim::SGD(parameters, torch::optim::SGDOptions(0.1).momentum(0.9)).step();
  torch::optim::Adam(parameters, torch::optim::AdamOptions(0.1)).step();
}

}  // namespace

void WarmUp(const Options& options) {
  try {
    TrainSmallNet();
  } catch (const std::exception&) {
  }
  try {
    if (options.warm_device) MakeDeviceContext(options);
  } catch (const std::exception&) {
  }
}

}  // namespace ddp::internal
