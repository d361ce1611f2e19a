// A thread that listens for LEAVE=1 while the worker is busy with something else.
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

// While this lives, LEAVE=1 is read as soon as it comes. Wait() is for one thread, the owner's.
class LeaveWatch {
 public:
  // `agent` outlives this. `on_leave`: as ControlClient::OnLeave().
  LeaveWatch(ControlClient* agent, std::function<void()> on_leave);
  // `on_leave` is not called any more.
  ~LeaveWatch();
  LeaveWatch(const LeaveWatch&) = delete;
  LeaveWatch& operator=(const LeaveWatch&) = delete;

  // Until LEAVE=1 has come, at most for `patience`. False: it has not.
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
