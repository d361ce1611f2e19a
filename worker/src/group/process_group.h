// Store and process group of one job: who is there, and how they talk.
#ifndef DDPRUN_WORKER_SRC_GROUP_PROCESS_GROUP_H_
#define DDPRUN_WORKER_SRC_GROUP_PROCESS_GROUP_H_

#include <c10/core/Device.h>
#include <ddp/context.h>

#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "worker/src/agent/launch_environment.h"
#include "worker/src/group/gloo_group.h"

namespace ddp::internal {

// "gloo" or "nccl" for Options::backend. Throws ConfigError for an unknown name, and for nccl where
// it was not built in or there is no CUDA device.
std::string ChooseBackend(const std::string& wanted);

// For Options::device, and makes it the current one. Throws ConfigError for an unknown name, for
// what does not go with `backend` or is not there, and with nccl for a LOCAL_RANK beyond this
// node's devices.
c10::Device ChooseDevice(const std::string& wanted, const std::string& backend,
                         const LaunchEnvironment& env);

// The store of this generation: at rank 0's MASTER_PORT, or inside the process for a job of one.
// Throws BindError on rank 0, CollectiveError elsewhere.
c10::intrusive_ptr<c10d::Store> MakeStore(const LaunchEnvironment& env, const Options& options);

// Whether one group can be NCCL's for a GPU's tensors and Gloo's for the CPU's: not in 1.13.
bool GroupsCarryBoth();

// Where Gloo is to talk: over GLOO_SOCKET_IFNAME, or else the address towards rank 0. Throws
// ConfigError.
GlooDevices MakeGlooDevices(const LaunchEnvironment& env);

// Tells the ranks that wait, or will wait, in WaitForAllRanks() that this one cannot join.
void RefuseToJoin(const LaunchEnvironment& env, const std::string& reason, c10d::Store* store);

// Returns once all ranks have called it, and has written `address`, of this rank, under
// AddressKey(). Throws CollectiveError, which names the missing ranks, or the one that refused and
// why; and ConfigError where ranks contradict each other in RANK, WORLD_SIZE, backend or kind of
// device.
void WaitForAllRanks(const LaunchEnvironment& env, const Options& options,
                     const std::string& backend, c10::Device device, const std::string& address,
                     c10d::Store* store);

struct Group {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  bool carries_cpu_tensors = false;
  // Ends collectives that do not fail by themselves when a rank is lost; null: none are so, or
  // nothing ends them. May throw and take long.
  std::function<void()> abort;
  // Whether one has failed that nobody was told of; null: such a failure ends the process.
  std::function<bool()> failed;
  // Before the group is destroyed while all is well; may throw. Null: nothing is to be done.
  std::function<void()> leave;
};

// Connects the ranks, which are all there. With nccl, `gloo_devices` are for CPU tensors, where
// GroupsCarryBoth().
Group MakeGroup(const LaunchEnvironment& env, const Options& options, const std::string& backend,
                c10::Device device, const GlooDevices& gloo_devices,
                const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_PROCESS_GROUP_H_
