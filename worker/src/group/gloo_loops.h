// Ends all Gloo connections at once.
//
// Gloo closes a connection itself once its event loop sees the end of it, and shutdown(2) of the
// socket is such an end, here and for the peer. Closing each connection
// (gloo::transport::Pair::close) would wait for the event loop up to 10 ms every time. The sockets
// are the ones that the event loop watches; the kernel lists them in /proc/self/fdinfo/<the loop's
// epoll descriptor>.
#ifndef DDPRUN_WORKER_SRC_GROUP_GLOO_LOOPS_H_
#define DDPRUN_WORKER_SRC_GROUP_GLOO_LOOPS_H_

#include <functional>
#include <vector>

namespace ddp::internal {

// The event loops of some Gloo devices. A value; valid while the devices live.
class GlooLoops {
 public:
  GlooLoops() = default;

  // The event loops of the devices that `make` makes. No other thread may open an epoll descriptor
  // meanwhile: it would be counted among them.
  static GlooLoops Of(const std::function<void()>& make);

  // Calls shutdown(2) on each connection that they watch now. Any thread; does not wait.
  void ShutDown() const;

 private:
  std::vector<int> loops_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_GLOO_LOOPS_H_
