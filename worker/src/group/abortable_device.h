// A device of Gloo whose collectives can be ended at any moment.
//
// Gloo cannot do that itself. Closing a connection (gloo::transport::Pair::close) wakes no waiter.
// Where a connection ends, Gloo wakes those whose message has not begun to travel. Who waits for a
// message that is partly sent or received sleeps on until the collective's timeout. So this device
// stands between c10d and Gloo's own device, knows all buffers, and wakes whoever waits.
#ifndef DDPRUN_WORKER_SRC_GROUP_ABORTABLE_DEVICE_H_
#define DDPRUN_WORKER_SRC_GROUP_ABORTABLE_DEVICE_H_

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include <functional>
#include <memory>
#include <string>

#include "worker/src/group/gloo_loops.h"

namespace ddp::internal {

// The buffers of a device's collectives (abortable_device.cc).
class GlooBuffers;

// Any thread.
class AbortableDevice final : public gloo::transport::Device {
 public:
  // Around the device that `make` makes.
  explicit AbortableDevice(const std::function<std::shared_ptr<gloo::transport::Device>()>& make);
  ~AbortableDevice() override;

  // Ends the collectives over this device: whoever waits in one throws gloo::IoException, and so
  // does whoever waits later. Then shuts the connections down, for the peers to fail as well. Waits
  // for nothing; a second call does the same again.
  //
  // Built with headers of another Gloo than libtorch's (without DDPRUN_GLOO_FITS), it can only shut
  // the connections down.
  void Abort();

  std::string str() const override;
  const std::string& getPCIBusID() const override;
  int getInterfaceSpeed() const override;
  bool hasGPUDirect() const override;
  // The pairs of the context are Gloo's own: an UnboundBuffer of it is not to be passed to them.
  // Gloo's collectives call UnboundBuffer::send() and recv().
  std::shared_ptr<gloo::transport::Context> createContext(int rank, int size) override;

 private:
  const std::shared_ptr<GlooBuffers> buffers_;
  std::shared_ptr<gloo::transport::Device> device_;
  GlooLoops loops_;  // those of device_
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_ABORTABLE_DEVICE_H_
