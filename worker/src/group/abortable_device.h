// A Gloo device whose collectives can be ended at any moment.
//
// Gloo itself cannot end them. Closing a connection (gloo::transport::Pair::close) wakes no thread
// in a collective. When a connection ends, Gloo wakes only threads whose message has not begun to
// travel. A thread whose message is partly sent or received sleeps until the timeout of the
// collective. So this device stands between c10d and Gloo's own device, knows all buffers, and
// wakes every waiting thread.
#ifndef DDPRUN_WORKER_SRC_GROUP_ABORTABLE_DEVICE_H_
#define DDPRUN_WORKER_SRC_GROUP_ABORTABLE_DEVICE_H_

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include <functional>
#include <memory>
#include <string>

#include "worker/src/group/gloo_loops.h"

namespace ddp::internal {

// The buffers of a device's collectives, and its connections (abortable_device.cc).
class GlooBuffers;

// Any thread.
class AbortableDevice final : public gloo::transport::Device {
 public:
  // Wraps the device that `make` returns.
  explicit AbortableDevice(const std::function<std::shared_ptr<gloo::transport::Device>()>& make);
  ~AbortableDevice() override;

  // Call it when all pairs of the contexts are connected.
  void Connected();

  // Ends the collectives over this device: every current and later wait throws gloo::IoException.
  // Then shuts the connections down, so that the other ranks fail too. Does not wait for other
  // ranks. May be called again. Before Connected(), also ends the waits for a connection. Newer
  // versions of Gloo connect all pairs at once; there such a wait ends with its timeout.
  //
  // If this library was built with the headers of another Gloo than libtorch's (without
  // DDPRUN_GLOO_FITS), Abort() only shuts the connections down.
  void Abort();

  std::string str() const override;
  const std::string& getPCIBusID() const override;
  int getInterfaceSpeed() const override;
  bool hasGPUDirect() const override;
  // The pairs of the context are Gloo's own, so do not pass an UnboundBuffer of this context to
  // them. Gloo's collectives call UnboundBuffer::send() and recv() instead.
  std::shared_ptr<gloo::transport::Context> createContext(int rank, int size) override;

 private:
  const std::shared_ptr<GlooBuffers> buffers_;
  std::shared_ptr<gloo::transport::Device> device_;
  GlooLoops loops_;  // the event loops of device_
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_ABORTABLE_DEVICE_H_
