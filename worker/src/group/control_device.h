// Where the small messages of this library's own travel, which are about the training and no part
// of it: agreements, names, sizes.
#ifndef DDPRUN_WORKER_SRC_GROUP_CONTROL_DEVICE_H_
#define DDPRUN_WORKER_SRC_GROUP_CONTROL_DEVICE_H_

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <ddp/context.h>
#include <torch/types.h>

namespace ddp::internal {

// The CPU wherever the group carries its tensors, so that no step waits for a GPU to read them. The
// same on all ranks.
inline c10::Device ControlDevice(const Context& ctx) {
  return ctx.carries_cpu_tensors() ? c10::Device(c10::kCPU) : ctx.device();
}

// Until what this thread has told `device` to do is done; at once for the CPU. What a collective of
// NCCL has left is known to be its result only after that.
inline void WaitForDevice(c10::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

// broadcast() of collectives.h, by way of `device`, the same on all ranks.
void BroadcastBy(c10::Device device, const Context& ctx, torch::Tensor& tensor, int root);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_CONTROL_DEVICE_H_
