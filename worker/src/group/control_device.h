// The device for this library's own small messages: agreements, names, sizes. These messages are
// not part of the training.
#ifndef DDPRUN_WORKER_SRC_GROUP_CONTROL_DEVICE_H_
#define DDPRUN_WORKER_SRC_GROUP_CONTROL_DEVICE_H_

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <ddp/context.h>
#include <torch/types.h>

namespace ddp::internal {

// The CPU if the group can send CPU tensors. Then no step waits for a GPU only to read a message.
// The same on all ranks.
inline c10::Device ControlDevice(const Context& ctx) {
  return ctx.carries_cpu_tensors() ? c10::Device(c10::kCPU) : ctx.device();
}

// Waits for the work on this thread's current stream of `device`. Returns at once for the CPU.
// Only after this wait is the result of an NCCL collective valid.
inline void WaitForDevice(c10::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
}

// broadcast() of collectives.h, with `device`, which must be the same on all ranks.
void BroadcastBy(c10::Device device, const Context& ctx, torch::Tensor& tensor, int root);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_CONTROL_DEVICE_H_
