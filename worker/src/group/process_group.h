// The store and the process group of one generation.
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

// Returns "gloo" or "nccl" for Options::backend. Throws ConfigError for an unknown name, and for
// nccl if nccl is not built in or no CUDA device exists.
std::string ChooseBackend(const std::string& wanted);

// Returns the device for Options::device. Makes a GPU the current device. Throws ConfigError for an
// unknown name, a missing device, or a device that does not fit `backend`. With nccl, also throws
// if the node has no device of number LOCAL_RANK, unless NCCL_HOSTID is set.
c10::Device ChooseDevice(const std::string& wanted, const std::string& backend,
                         const LaunchEnvironment& env);

// The store of this generation: at MASTER_ADDR:MASTER_PORT, or inside the process if the job has
// one rank. Throws BindError if rank 0 hosts the store and cannot listen on the port. Throws
// CollectiveError on any rank that cannot connect.
c10::intrusive_ptr<c10d::Store> MakeStore(const LaunchEnvironment& env, const Options& options);

// True if one group can use NCCL for GPU tensors and Gloo for CPU tensors. False in 1.13.
bool GroupsCarryBoth();

// Makes Gloo's devices: for the interfaces in GLOO_SOCKET_IFNAME or, if that is not set, for this
// rank's address towards rank 0. Throws ConfigError.
GlooDevices MakeGlooDevices(const LaunchEnvironment& env);

// Tells current and later callers of WaitForAllRanks() that this rank cannot join.
void RefuseToJoin(const LaunchEnvironment& env, const std::string& reason, c10d::Store* store);

// Writes `address`, the address of this rank, under AddressKey(), and returns once all ranks have
// called this function. Throws CollectiveError, which names the missing ranks, or the rank that
// refused and its reason. Ranks may contradict each other in RANK, WORLD_SIZE, backend or kind of
// device. Then a rank that notices this throws ConfigError, and the others throw CollectiveError.
void WaitForAllRanks(const LaunchEnvironment& env, const Options& options,
                     const std::string& backend, c10::Device device, const std::string& address,
                     c10d::Store* store);

struct Group {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  bool carries_cpu_tensors = false;
  // Ends collectives that do not fail by themselves when a rank is lost. Null: all collectives fail
  // by themselves, or none can be ended. May throw, and may take long.
  std::function<void()> abort;
  // Returns true if a collective has failed without an exception. Null: that cannot happen (gloo),
  // or it ends the process.
  std::function<bool()> failed;
  // Call it before the group is destroyed, if nothing has failed. May throw. Null: not needed.
  std::function<void()> leave;
};

// Connects the ranks, which have all joined already. With nccl and GroupsCarryBoth(),
// `gloo_devices` are for CPU tensors.
Group MakeGroup(const LaunchEnvironment& env, const Options& options, const std::string& backend,
                c10::Device device, const GlooDevices& gloo_devices,
                const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_PROCESS_GROUP_H_
