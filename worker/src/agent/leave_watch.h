// A thread that waits for LEAVE=1 while the worker is busy.
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

// While this lives, LEAVE=1 is read as soon as it arrives. Only the owner's thread may call Wait().
class LeaveWatch {
 public:
  // `agent` outlives this. `on_leave`: see ControlClient::OnLeave().
  LeaveWatch(ControlClient* agent, std::function<void()> on_leave);
  // `on_leave` is not called afterwards.
  ~LeaveWatch();
  LeaveWatch(const LeaveWatch&) = delete;
  LeaveWatch& operator=(const LeaveWatch&) = delete;

  // Waits for LEAVE=1, at most for `patience`. False: it has not come.
  bool Wait(std::chrono::milliseconds patience);

 private:
  void Run();

  ControlClient* const agent_;
  const ddprun::UniqueFd stop_;  // an eventfd
  std::mutex mutex_;
  std::condition_variable changed_;
  bool leaves_ = false;  // guarded by mutex_
  std::thread thread_;   // the last member: runs while all others live
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_LEAVE_WATCH_H_
