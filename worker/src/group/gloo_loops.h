// Ends all Gloo connections at once.
//
// Gloo closes a connection once its event loop sees that the connection has ended. shutdown(2) of
// the socket makes this happen, on this rank and on the other one. Closing each connection
// (gloo::transport::Pair::close) would instead wait up to 10 ms for the event loop every time. The
// event loop watches the sockets, and the kernel lists them in /proc/self/fdinfo/<the loop's epoll
// descriptor>.
//
// Connecting ranks, and destroying a device, also wait for the event loop, which goes round every
// 10 ms if nothing happens. With a GlooHaste, a timer makes it go round more often.
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

// While one exists, each event loop of GlooLoops::Of() goes round at least every 0.5 ms. Any
// thread. Without effect with a newer Gloo, which does not wait like this, or if this library was
// built with the headers of another Gloo (without DDPRUN_GLOO_FITS).
class GlooHaste {
 public:
  GlooHaste();
  ~GlooHaste();
  GlooHaste(const GlooHaste&) = delete;
  GlooHaste& operator=(const GlooHaste&) = delete;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_GLOO_LOOPS_H_
