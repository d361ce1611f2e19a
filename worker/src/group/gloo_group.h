// Connects the ranks over Gloo. Errors say which rank cannot reach which.
#ifndef DDPRUN_WORKER_SRC_GROUP_GLOO_GROUP_H_
#define DDPRUN_WORKER_SRC_GROUP_GLOO_GROUP_H_

#include <ddp/context.h>

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "worker/src/agent/launch_environment.h"
#include "worker/src/group/abortable_device.h"

namespace ddp::internal {

using GlooDevices = std::vector<std::shared_ptr<AbortableDevice>>;

// Calls AbortableDevice::Abort() of all `devices`.
void EndCollectives(const GlooDevices& devices);

// The numeric address of the first device, at which the other ranks connect to this rank.
std::string AddressOf(const GlooDevices& devices);

// The store key of a rank's AddressOf(). The rank writes it before it joins (WaitForAllRanks()).
std::string AddressKey(int rank);

// Makes the process group, together with all other ranks, for tensors on the CPU and on `device`.
// In each pair of ranks, Gloo lets one rank connect and the other rank wait, for as long as a
// collective may take. If the connecting rank cannot reach the waiting rank, it fails at once, but
// the waiting rank does not notice. Here the failing rank tells the others over
// ProcessFailureDetector(), and no rank waits longer than Options::init_timeout. If an error
// contains an address, the error names the rank of that address.
//
// Throws CollectiveError. A thread may still wait then. To end it, call EndCollectives(devices), or
// end the process.
c10::intrusive_ptr<c10d::ProcessGroup> ConnectGloo(const LaunchEnvironment& env,
                                                   const Options& options, c10::Device device,
                                                   const GlooDevices& devices,
                                                   const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_GLOO_GROUP_H_
