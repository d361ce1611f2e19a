// The device for this library's own small messages: agreements, names, sizes. They are no part of
// the training.
#ifndef DDPRUN_WORKER_SRC_GROUP_CONTROL_DEVICE_H_
#define DDPRUN_WORKER_SRC_GROUP_CONTROL_DEVICE_H_

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <ddp/context.h>
#include <torch/types.h>

namespace ddp::internal {

// The CPU if the group carries CPU tensors, so that no step waits for a GPU to read a message. The
// same on all ranks.
inline c10::Device ControlDevice(const Context& ctx) {
  return ctx.carries_cpu_tensors() ? c10::Device(c10::kCPU) : ctx.device();
}

// Waits until `device` has done what this thread gave it; returns at once for the CPU. Only then is
// the result of an NCCL collective valid.
inline void WaitForDevice(c10::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

// broadcast() of collectives.h through `device`, which is the same on all ranks.
void BroadcastBy(c10::Device device, const Context& ctx, torch::Tensor& tensor, int root);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_CONTROL_DEVICE_H_
