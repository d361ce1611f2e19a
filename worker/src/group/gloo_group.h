// Connecting the ranks over Gloo, with errors that say who cannot reach whom.
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

// Ends all collectives over `devices`: AbortableDevice::Abort().
void EndCollectives(const GlooDevices& devices);

// Where this rank waits for others, and they for this one: a numeric address, of the first device.
std::string AddressOf(const GlooDevices& devices);

// The key under which each rank writes that into the store before it joins: WaitForAllRanks().
std::string AddressKey(int rank);

// Makes the process group, with all other ranks, for tensors on the CPU and on `device`. Of each
// two ranks, Gloo lets one connect and the other one wait, for as long as a collective may take; so
// where one cannot reach the other, that one fails at once, and the other one knows nothing of it.
// Here that rank tells the others over ProcessFailureDetector(), and no rank waits longer than
// Options::init_timeout. Of addresses in errors it says whose they are.
//
// Throws CollectiveError. What is still waiting then is left behind on a thread of its own: the
// process has to end.
c10::intrusive_ptr<c10d::ProcessGroup> ConnectGloo(const LaunchEnvironment& env,
                                                   const Options& options, c10::Device device,
                                                   const GlooDevices& devices,
                                                   const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_GLOO_GROUP_H_
