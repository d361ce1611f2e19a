// NCCL's process group, and what it is told.
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

// Whether this library was built with NCCL.
extern const bool kHasNccl;

// Whether its groups have NcclGroup::abort and failed, so that a process can leave one and go on.
extern const bool kNcclCanBeLeft;

// A variable of the environment that libtorch's NCCL reads, and what it is where nobody has set it,
// by this name or an older one, which 2.x knows as well.
struct NcclSetting {
  const char* name;
  const char* older_name;  // null: there is none
  const char* value;
};

// docs/gpu.md says of each what it does, and why.
inline constexpr std::array<NcclSetting, 4> kNcclSettings = {{
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING", "3"},
    {"TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT", "0"},
    {"TORCH_NCCL_ENABLE_MONITORING", nullptr, "1"},
    {"TORCH_NCCL_DUMP_ON_TIMEOUT", nullptr, "0"},
}};

// What else is set where nobody has: the seconds of WatchdogTimeout().
inline constexpr char kNcclWatchdogSeconds[] = "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC";

// Sets those that are not there, WAIT_TIMEOUT_DUMP_MILSEC to 0 where DUMP_ON_TIMEOUT is not there,
// and turns ASYNC_ERROR_HANDLING from 1, which launchers set,
// into 3. In 1.13, which knows the older names alone, sets NCCL_ASYNC_ERROR_HANDLING to 1 if it is
// not there. Before other threads look at the environment. Throws ddp::ConfigError.
//
// `can_be_left`: ASYNC_ERROR_HANDLING is 2 unless it was set to 0. Then an error of NCCL ends the
// collectives and not the process, and NcclGroup::failed tells of it.
void SetNcclSettings(bool can_be_left);

struct NcclGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // for CUDA tensors
  // Ends its collectives; null where libtorch cannot (1.13). May throw and take long. A second call
  // waits for the first. Any thread.
  std::function<void()> abort;
  // Whether libtorch's watchdog has seen an error or a timeout; null where it does not say. Any
  // thread.
  std::function<bool()> failed;
  // Waits for what the GPU has been told, and takes leave of the others, who may need nothing more
  // of this rank then.
  std::function<void()> leave;
};

// Connects the ranks, which are all there. Only with kHasNccl. Throws CollectiveError.
NcclGroup ConnectNccl(const LaunchEnvironment& env, const Options& options, c10::Device device,
                      const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_NCCL_GROUP_H_
