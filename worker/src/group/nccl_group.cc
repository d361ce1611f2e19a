#include "worker/src/group/nccl_group.h"

#include <ddp/errors.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "worker/src/agent/launch_environment.h"
#include "worker/src/compat/compat.h"

#ifdef USE_C10D_NCCL
#include <c10/core/DeviceGuard.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include <memory>
#include <mutex>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <vector>

#include "worker/src/group/connect_with_deadline.h"
#include "worker/src/group/recorded_group.h"
#endif

namespace ddp::internal {
namespace {

constexpr char kEndCollectives[] = "2";  // a value of ASYNC_ERROR_HANDLING
constexpr char kDump[] = "TORCH_NCCL_DUMP_ON_TIMEOUT";
constexpr char kWaitForDump[] = "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC";

}  // namespace

#ifdef USE_C10D_NCCL

const bool kHasNccl = true;
const bool kNcclCanBeLeft = compat::kTellsErrors<c10d::ProcessGroupNCCL>;

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
        // The first collective makes the communicator, so run one now. If a rank were lost while a
        // later collective made it, the other ranks would hang where nothing can be aborted.
        const c10::DeviceGuard guard(device);
        std::vector<torch::Tensor> ones = {
            torch::ones({1}, torch::TensorOptions(torch::kInt64).device(device))};
        group->allreduce(ones)->wait();
        if (ones[0].item<std::int64_t>() != env.world_size) {
          throw std::runtime_error("NCCL does not add up what all ranks have");
        }
        return group;
      });
  if (const auto abort = compat::AbortOf(*nccl)) {
    result.abort = [abort, once = std::make_shared<std::once_flag>()] {
      std::call_once(*once, abort);
    };
  }
  result.failed = compat::FailedOf(*nccl);
  result.leave = [nccl = *nccl, device] {
    torch::cuda::synchronize(device.index());
    compat::Shutdown(nccl);
  };
  return result;
}

#else

const bool kHasNccl = false;
const bool kNcclCanBeLeft = false;

NcclGroup ConnectNccl(const LaunchEnvironment&, const Options&, c10::Device,
                      const c10::intrusive_ptr<c10d::Store>&) {
  throw ConfigError("this program was built without NCCL");
}

#endif

void SetNcclSettings(bool can_be_left) {
  const NcclSetting& error_handling = kNcclSettings[0];
  if (!compat::kHasBackends<c10d::ProcessGroup>) {
    setenv(error_handling.older_name, "1", 0);
    return;
  }
  const char* as_set = std::getenv(error_handling.name);
  if (as_set == nullptr) as_set = std::getenv(error_handling.older_name);
  const auto is = [as_set](const char* value) {
    return as_set != nullptr && std::strcmp(as_set, value) == 0;
  };
  if (can_be_left && !is("0")) setenv(error_handling.name, kEndCollectives, 1);
  if (!can_be_left && is("1")) setenv(error_handling.name, error_handling.value, 1);
  // If nothing is dumped, the watchdog thread need not wait for a dump. While it waits, it holds a
  // mutex that the next collective needs.
  if (std::getenv(kDump) == nullptr) setenv(kWaitForDump, "0", 0);
  const auto watchdog = WatchdogTimeout([](const char* name) { return std::getenv(name); });
  setenv(kNcclWatchdogSeconds, std::to_string(watchdog.count()).c_str(), 0);
  for (const NcclSetting& setting : kNcclSettings) {
    const bool has_older =
        setting.older_name != nullptr && std::getenv(setting.older_name) != nullptr;
    if (has_older && std::getenv(setting.name) == nullptr) continue;
    if (has_older) unsetenv(setting.older_name);  // libtorch warns of it
    setenv(setting.name, setting.value, 0);
  }
}

}  // namespace ddp::internal
