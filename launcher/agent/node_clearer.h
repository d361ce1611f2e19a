// NodeClearer: ends what workers have left behind, before the rendezvous may believe that no
// process of this node is left.
//
// What is left is dead within microseconds of its SIGKILL, or it takes its time (a process with
// much memory), or it cannot be ended. The loop goes on meanwhile. Belongs to the loop's thread.
#ifndef DDPRUN_LAUNCHER_AGENT_NODE_CLEARER_H_
#define DDPRUN_LAUNCHER_AGENT_NODE_CLEARER_H_

#include <functional>

#include "absl/status/status.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/process/process_runner.h"

namespace ddprun {

class NodeClearer {
 public:
  using Done = std::function<void(const absl::Status&)>;

  // Both must outlive this object.
  NodeClearer(EventLoop* loop, ProcessRunner* runner) : loop_(loop), runner_(runner) {}
  ~NodeClearer() { loop_->CancelTimer(again_); }
  NodeClearer(const NodeClearer&) = delete;
  NodeClearer& operator=(const NodeClearer&) = delete;

  // Calls `done` once, at once or within 2 s; what cannot be ended is logged, and not waited for.
  // `is_late`: it had its time already. Unavailable: the guardian is gone, and the workers with it.
  void Clear(bool is_late, Done done);

 private:
  void Try();

  EventLoop* const loop_;
  ProcessRunner* const runner_;
  EventLoop::Clock::time_point until_;
  EventLoop::TimerId again_ = 0;
  Done done_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_NODE_CLEARER_H_
