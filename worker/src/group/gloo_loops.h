// Ends the connections of Gloo under the collectives that use them.
//
// A collective of Gloo waits for as long as its connections are there, and closing a connection
// (gloo::transport::Pair::close) wakes no waiter. shutdown(2) of the socket does: Gloo's own event
// loop then sees the connection end, and every waiter throws. The sockets are those that the event
// loop watches, and the kernel lists them: /proc/self/fdinfo/<the loop's epoll descriptor>.
#ifndef DDPRUN_WORKER_SRC_GROUP_GLOO_LOOPS_H_
#define DDPRUN_WORKER_SRC_GROUP_GLOO_LOOPS_H_

#include <functional>
#include <vector>

namespace ddp::internal {

// The event loops of some Gloo devices. A value; good for as long as the devices live.
class GlooLoops {
 public:
  GlooLoops() = default;

  // Those of the devices that `make` makes, on this thread; so an epoll descriptor that another
  // thread opens at the same moment is not among them.
  static GlooLoops Of(const std::function<void()>& make);

  // shutdown(2) of each connection that they watch now. Any thread; waits for nothing.
  void ShutDown() const;

 private:
  std::vector<int> loops_;
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_GROUP_GLOO_LOOPS_H_
