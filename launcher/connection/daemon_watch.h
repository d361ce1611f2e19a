// DaemonWatch: for an agent that is allowed to start the rendezvous. Ensures that the rendezvous
// runs: before each attempt to connect, and repeatedly until the rendezvous has sent a message
// other than Waiting.
//
// The loop's thread only.
#ifndef DDPRUN_LAUNCHER_CONNECTION_DAEMON_WATCH_H_
#define DDPRUN_LAUNCHER_CONNECTION_DAEMON_WATCH_H_

#include <chrono>
#include <functional>
#include <utility>

#include "launcher/connection/place_rotation.h"
#include "launcher/os/event_loop.h"

namespace ddprun {

class DaemonWatch {
 public:
  // Ensures that the rendezvous runs at this place. True: it runs or starts there, as our child.
  using EnsureRunning = std::function<bool(int place)>;

  // `loop` and `places` must outlive this object.
  DaemonWatch(EventLoop* loop, const PlaceRotation* places, EnsureRunning ensure_running)
      : loop_(loop), places_(places), ensure_running_(std::move(ensure_running)) {}
  ~DaemonWatch() { Stop(); }
  DaemonWatch(const DaemonWatch&) = delete;
  DaemonWatch& operator=(const DaemonWatch&) = delete;

  // Ensures now that it runs at the place that is tried next.
  void Ensure() { ours_ = ensure_running_(places_->place()); }
  // Does the same repeatedly, until Stop.
  void Start();
  void Stop() { loop_->CancelTimer(timer_); }

  // The last result: the rendezvous is our child.
  bool ours() const { return ours_; }

 private:
  EventLoop* const loop_;
  const PlaceRotation* const places_;
  const EnsureRunning ensure_running_;
  bool ours_ = false;
  EventLoop::TimerId timer_ = 0;
  std::chrono::milliseconds interval_{100};
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_DAEMON_WATCH_H_
