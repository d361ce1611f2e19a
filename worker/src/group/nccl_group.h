// NCCL's process group and its settings.
#ifndef DDPRUN_WORKER_SRC_GROUP_NCCL_GROUP_H_
#define DDPRUN_WORKER_SRC_GROUP_NCCL_GROUP_H_

#include <c10/core/Device.h>
#include <ddp/context.h>

#include <array>
#include <functional>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "worker/src/agent/launch_environment.h"

namespace ddp::internal {

// This library was built with NCCL.
extern const bool kHasNccl;

// NcclGroup has `abort` and `failed`, so that a process can leave a group and continue.
extern const bool kNcclCanBeLeft;

// An environment variable that libtorch's NCCL reads, and its value if the user has set neither
// this name nor the older one, which 2.x reads too.
struct NcclSetting {
  const char* name;
  const char* older_name;  // null: none
  const char* value;
};

// docs/gpu.md explains each.
inline constexpr std::array<NcclSetting, 4> kNcclSettings = {{
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING", "3"},
    {"TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT", "0"},
    {"TORCH_NCCL_ENABLE_MONITORING", nullptr, "1"},
    {"TORCH_NCCL_DUMP_ON_TIMEOUT", nullptr, "0"},
}};

// Also set if the user has not set it: WatchdogTimeout() in seconds.
inline constexpr char kNcclWatchdogSeconds[] = "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC";

// Sets the variables above that are not set, and WAIT_TIMEOUT_DUMP_MILSEC to 0 if DUMP_ON_TIMEOUT
// is not set. Changes ASYNC_ERROR_HANDLING from 1, which launchers set, to 3. 1.13 reads only the
// older names: there it sets NCCL_ASYNC_ERROR_HANDLING to 1 if that is not set. Call it before
// other threads read the environment. Throws ddp::ConfigError.
//
// `can_be_left`: sets ASYNC_ERROR_HANDLING to 2 unless it is 0. Then an NCCL error ends the
// collectives but not the process, and NcclGroup::failed reports it.
void SetNcclSettings(bool can_be_left);

struct NcclGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // for CUDA tensors
  // Ends its collectives; null: libtorch cannot (1.13). May throw and take long. A second call
  // waits for the first. Any thread.
  std::function<void()> abort;
  // libtorch's watchdog has seen an error or a timeout; null: this libtorch does not tell. Any
  // thread.
  std::function<bool()> failed;
  // Waits for the GPU's pending work and shuts the group down. No other rank may need this one
  // afterwards.
  std::function<void()> leave;
};

// Connects the ranks; all have joined already. Only with kHasNccl. Throws CollectiveError.
NcclGroup ConnectNccl(const LaunchEnvironment& env, const Options& options, c10::Device device,
                      const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_NCCL_GROUP_H_
