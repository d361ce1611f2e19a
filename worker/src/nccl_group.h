// NCCL's process group, and what it is told.
#ifndef DDPRUN_WORKER_SRC_NCCL_GROUP_H_
#define DDPRUN_WORKER_SRC_NCCL_GROUP_H_

#include <ddp/context.h>

#include <array>
#include <functional>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "worker/src/launch_environment.h"

namespace ddp::internal {

// Whether this library was built with NCCL.
extern const bool kHasNccl;

// A variable of the environment that libtorch's NCCL reads, and what it is where nobody has set it.
struct NcclSetting {
  const char* name;
  const char* value;
};

// docs/gpu.md says of each what it does, and why.
inline constexpr std::array<NcclSetting, 5> kNcclSettings = {{
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
    {"TORCH_NCCL_BLOCKING_WAIT", "0"},
    {"TORCH_NCCL_ENABLE_MONITORING", "1"},
    {"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "480"},
    {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
}};

// Sets those that are not there. Before other threads look at the environment.
void SetNcclSettings();

struct NcclGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // for CUDA tensors
  std::function<void()> abort;  // ends its collectives; null where libtorch cannot (1.13)
};

// Only with kHasNccl. Ranks connect with the first collective.
NcclGroup MakeNcclGroup(const LaunchEnvironment& env, const Options& options,
                        const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_NCCL_GROUP_H_
