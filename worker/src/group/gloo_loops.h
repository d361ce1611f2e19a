// Ends the connections of Gloo, all at once.
//
// Gloo closes a connection by itself once its event loop sees the end of it, and shutdown(2) of the
// socket is such an end: here, and for the peer. Closing each one (gloo::transport::Pair::close)
// waits up to 10 ms for the event loop every time. The sockets are those that the event loop
// watches, and the kernel lists them: /proc/self/fdinfo/<the loop's epoll descriptor>.
#ifndef DDPRUN_WORKER_SRC_GROUP_GLOO_LOOPS_H_
#define DDPRUN_WORKER_SRC_GROUP_GLOO_LOOPS_H_

#include <functional>
#include <vector>

namespace ddp::internal {

// The event loops of some Gloo devices. A value; good for as long as the devices live.
class GlooLoops {
 public:
  GlooLoops() = default;

  // Those of the devices that `make` makes. No other thread is to open an epoll descriptor
  // meanwhile: it would be among them.
  static GlooLoops Of(const std::function<void()>& make);

  // shutdown(2) of each connection that they watch now. Any thread; waits for nothing.
  void ShutDown() const;

 private:
  std::vector<int> loops_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_GLOO_LOOPS_H_
