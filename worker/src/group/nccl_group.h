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

// True if this library was built with NCCL.
extern const bool kHasNccl;

// True if NcclGroup has `abort` and `failed`, so that a process can leave a group and continue.
extern const bool kNcclCanBeLeft;

// An environment variable that libtorch's NCCL code reads. `value` is used if the user has set
// neither `name` nor `older_name`, which 2.x also reads.
struct NcclSetting {
  const char* name;
  const char* older_name;  // null: none
  const char* value;
};

// docs/gpu.md explains each setting.
inline constexpr std::array<NcclSetting, 4> kNcclSettings = {{
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING", "3"},
    {"TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT", "0"},
    {"TORCH_NCCL_ENABLE_MONITORING", nullptr, "1"},
    {"TORCH_NCCL_DUMP_ON_TIMEOUT", nullptr, "0"},
}};

// Set to WatchdogTimeout() in seconds if the user has not set it.
inline constexpr char kNcclWatchdogSeconds[] = "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC";

// Sets the variables above that are not set, and WAIT_TIMEOUT_DUMP_MILSEC to 0 if DUMP_ON_TIMEOUT
// is not set. Changes ASYNC_ERROR_HANDLING from 1, which launchers set, to 3. libtorch 1.13 reads
// only the older names. There this function only sets NCCL_ASYNC_ERROR_HANDLING to 1, if it is not
// set. Call it before other threads read the environment. Throws ddp::ConfigError if
// DDPRUN_HANG_LIMIT_MS is malformed.
//
// `can_be_left`: sets ASYNC_ERROR_HANDLING to 2 unless it is 0. Then an NCCL error ends the
// collectives but not the process, and NcclGroup::failed reports it.
void SetNcclSettings(bool can_be_left);

struct NcclGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // for CUDA tensors
  // Ends the group's collectives. Null: libtorch cannot do that (1.13). May throw, and may take
  // long. A second call waits for the first. Any thread.
  std::function<void()> abort;
  // Returns true if libtorch's watchdog thread has seen an error or a timeout. Null: this libtorch
  // does not report them. Any thread.
  std::function<bool()> failed;
  // Waits for the GPU's pending work and shuts the group down. Call it when no other rank needs
  // this rank any more.
  std::function<void()> leave;
};

// Connects the ranks, which have all joined already. Only with kHasNccl. Throws CollectiveError.
NcclGroup ConnectNccl(const LaunchEnvironment& env, const Options& options, c10::Device device,
                      const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_NCCL_GROUP_H_
