#include "launcher/connection/daemon_watch.h"

#include <algorithm>

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kLongestInterval{2000};

}  // namespace

void DaemonWatch::Start() {
  timer_ = loop_->AddTimer(EventLoop::Clock::now() + interval_, [this] {
    Ensure();
    interval_ = std::min(2 * interval_, kLongestInterval);
    Start();
  });
}

}  // namespace ddprun
