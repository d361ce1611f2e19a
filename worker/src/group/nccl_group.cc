#include "worker/src/group/nccl_group.h"

#include <ddp/errors.h>

#include <cstdlib>
#include <cstring>

#include "worker/src/agent/launch_environment.h"
#include "worker/src/compat/compat.h"

#ifdef USE_C10D_NCCL
#include <c10/core/DeviceGuard.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <memory>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <vector>

#include "worker/src/group/connect_with_deadline.h"
#include "worker/src/group/recorded_group.h"
#endif

namespace ddp::internal {

#ifdef USE_C10D_NCCL

const bool kHasNccl = true;

NcclGroup ConnectNccl(const LaunchEnvironment& env, const Options& options, c10::Device device,
                      const c10::intrusive_ptr<c10d::Store>& store) {
  using Nccl = c10::intrusive_ptr<c10d::ProcessGroupNCCL>;
  const auto nccl = std::make_shared<Nccl>();
  const auto timeout = *options.timeout;
  NcclGroup result;
  result.group = ConnectWithDeadline(
      env, ConnectTimeout(options.init_timeout), "", [nccl, env, store, device, timeout] {
        auto nccl_options = c10d::ProcessGroupNCCL::Options::create();
        nccl_options->timeout = timeout;
        const auto made =
            compat::MakeProcessGroup<c10d::ProcessGroup, c10d::ProcessGroupNCCL, RecordedGroup>(
                store, env.rank, env.world_size, nccl_options, {c10::kCUDA}, /*is_nccl=*/true);
        *nccl = made.backend;
        const auto group = made.group;
        // The communicator is made by the first collective. Later, a rank that is lost in the
        // middle of that would leave the others where nothing can be aborted.
        const c10::DeviceGuard guard(device);
        std::vector<torch::Tensor> ones = {
            torch::ones({1}, torch::TensorOptions(torch::kInt64).device(device))};
        group->allreduce(ones)->wait();
        if (ones[0].item<std::int64_t>() != env.world_size) {
          throw std::runtime_error("NCCL does not add up what all ranks have");
        }
        return group;
      });
  result.abort = compat::AbortOf(*nccl);
  result.leave = [nccl = *nccl, device] {
    torch::cuda::synchronize(device.index());
    compat::Shutdown(nccl);
  };
  return result;
}

#else

const bool kHasNccl = false;

NcclGroup ConnectNccl(const LaunchEnvironment&, const Options&, c10::Device,
                      const c10::intrusive_ptr<c10d::Store>&) {
  throw ConfigError("this program was built without NCCL");
}

#endif

void SetNcclSettings() {
  const NcclSetting& error_handling = kNcclSettings[0];
  if (!compat::kHasBackends<c10d::ProcessGroup>) {
    setenv(error_handling.older_name, "1", 0);
    return;
  }
  const char* const as_set = std::getenv(error_handling.name);
  if (as_set != nullptr && std::strcmp(as_set, "1") == 0) {
    setenv(error_handling.name, error_handling.value, 1);
  }
  for (const NcclSetting& setting : kNcclSettings) {
    if (setting.older_name != nullptr && std::getenv(setting.older_name) != nullptr) continue;
    setenv(setting.name, setting.value, 0);
  }
}

}  // namespace ddp::internal
