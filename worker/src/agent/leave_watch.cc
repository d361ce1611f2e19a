#include "worker/src/agent/leave_watch.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "worker/contract/time_slice.h"

namespace ddp::internal {

LeaveWatch::LeaveWatch(ControlClient* agent, std::function<void()> on_leave)
    : agent_(agent), stop_(eventfd(0, EFD_CLOEXEC)) {
  agent_->OnLeave([this, on_leave = std::move(on_leave)] {
    on_leave();
    const std::lock_guard<std::mutex> lock(mutex_);
    leaves_ = true;
    changed_.notify_all();
  });
  thread_ = std::thread([this] { Run(); });
}

LeaveWatch::~LeaveWatch() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof(one));
  thread_.join();
  agent_->OnLeave(nullptr);
}

bool LeaveWatch::Wait(std::chrono::milliseconds patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, patience, [this] { return leaves_; });
}

// If there is no agent, or once it is gone, only the destructor wakes the thread.
void LeaveWatch::Run() {
  ddprun::RunAsSoonAsWoken();  // the program may compute on every core
  pthread_setname_np(pthread_self(), "ddp-leave");
  pollfd watched[2] = {{agent_->descriptor(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  while (watched[1].revents == 0) {
    if (poll(watched, 2, -1) < 0) continue;  // a signal
    if ((watched[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) watched[0].fd = -1;
    if (watched[0].revents != 0) agent_->Read();
  }
}

}  // namespace ddp::internal
