// Ends all Gloo connections at once.
//
// Gloo closes a connection once its event loop sees that the connection has ended. shutdown(2) of
// the socket makes this happen, on this rank and on the other one. Closing each connection
// (gloo::transport::Pair::close) would instead wait up to 10 ms for the event loop every time. The
// event loop watches the sockets, and the kernel lists them in /proc/self/fdinfo/<the loop's epoll
// descriptor>.
#ifndef DDPRUN_WORKER_SRC_GROUP_GLOO_LOOPS_H_
#define DDPRUN_WORKER_SRC_GROUP_GLOO_LOOPS_H_

#include <functional>
#include <vector>

namespace ddp::internal {

// The event loops of some Gloo devices. Can be copied. Valid while the devices exist.
class GlooLoops {
 public:
  GlooLoops() = default;

  // Returns the event loops of the devices that `make` makes. No other thread may open an epoll
  // descriptor meanwhile, because it would be counted among them.
  static GlooLoops Of(const std::function<void()>& make);

  // Calls shutdown(2) on each connection that the loops watch now. Any thread; does not wait.
  void ShutDown() const;

 private:
  std::vector<int> loops_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_GLOO_LOOPS_H_
