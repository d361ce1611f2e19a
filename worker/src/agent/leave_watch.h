// A thread that reads the agent's message LEAVE=1 while the worker is busy. LEAVE=1 means that the
// generation is over (worker/contract/control.h).
#ifndef DDPRUN_WORKER_SRC_AGENT_LEAVE_WATCH_H_
#define DDPRUN_WORKER_SRC_AGENT_LEAVE_WATCH_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "worker/contract/unique_fd.h"
#include "worker/src/agent/control_client.h"

namespace ddp::internal {

// Starts the thread, which reads LEAVE=1 as soon as it arrives. Only the owner's thread may call
// Wait().
class LeaveWatch {
 public:
  // `agent` must outlive this object. `on_leave`: see ControlClient::OnLeave().
  LeaveWatch(ControlClient* agent, std::function<void()> on_leave);
  // After this, `on_leave` is not called.
  ~LeaveWatch();
  LeaveWatch(const LeaveWatch&) = delete;
  LeaveWatch& operator=(const LeaveWatch&) = delete;

  // Waits for LEAVE=1 for at most `patience`. False: it has not come.
  bool Wait(std::chrono::milliseconds patience);

 private:
  void Run();

  ControlClient* const agent_;
  const ddprun::UniqueFd stop_;  // an eventfd
  std::mutex mutex_;
  std::condition_variable changed_;
  bool leaves_ = false;  // guarded by mutex_
  std::thread thread_;   // last, because it uses all members above
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_LEAVE_WATCH_H_
