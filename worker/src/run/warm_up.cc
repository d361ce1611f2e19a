#include "worker/src/run/warm_up.h"

#include <torch/types.h>

#include <cstdlib>
#include <exception>

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

}  // namespace

void WarmUp(const Options& options) {
  try {
    // A forward and a backward pass. They load kernels and start autograd's threads.
    const torch::Tensor weight = torch::zeros({8, 8}, torch::requires_grad());
    torch::mm(torch::zeros({8, 8}), weight).relu().sum().backward();
    if (options.warm_device) MakeDeviceContext(options);
  } catch (const std::exception&) {
  }
}

}  // namespace ddp::internal
