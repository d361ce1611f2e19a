// A Gloo device whose collectives can be ended at any moment.
//
// Gloo cannot do that itself. Closing a connection (gloo::transport::Pair::close) wakes no waiter.
// When a connection ends, Gloo wakes only the waiters whose message has not begun to travel. A
// waiter whose message is partly sent or received sleeps until the timeout of the collective. So
// this device stands between c10d and Gloo's own device, knows all buffers, and wakes every waiter.
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
  // Wraps the device that `make` returns.
  explicit AbortableDevice(const std::function<std::shared_ptr<gloo::transport::Device>()>& make);
  ~AbortableDevice() override;

  // Ends the collectives over this device: every present and later waiter throws gloo::IoException.
  // Then shuts the connections down, so that the peers fail too. Does not wait; may be repeated.
  //
  // If built with headers of another Gloo than libtorch's (without DDPRUN_GLOO_FITS), it only shuts
  // the connections down.
  void Abort();

  std::string str() const override;
  const std::string& getPCIBusID() const override;
  int getInterfaceSpeed() const override;
  bool hasGPUDirect() const override;
  // The pairs of the context are Gloo's own: do not pass an UnboundBuffer of this context to them.
  // Gloo's collectives call UnboundBuffer::send() and recv() instead.
  std::shared_ptr<gloo::transport::Context> createContext(int rank, int size) override;

 private:
  const std::shared_ptr<GlooBuffers> buffers_;
  std::shared_ptr<gloo::transport::Device> device_;
  GlooLoops loops_;  // the event loops of device_
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_ABORTABLE_DEVICE_H_
