#include "launcher/commands/idle_watch.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "launcher/log.h"

namespace ddprun {

IdleWatch::IdleWatch(EventLoop* loop, std::chrono::milliseconds patience,
                     std::optional<pid_t> starter)
    : loop_(loop), patience_(patience) {
  if (starter) {
    starter_.reset(static_cast<int>(syscall(SYS_pidfd_open, *starter, 0)));
    if (starter_.valid()) {
      loop_->Watch(starter_.get(), EPOLLIN, [this](std::uint32_t) { OnStarterEnded(); });
    } else if (errno == ESRCH) {
      patience_ = std::chrono::milliseconds(0);
    }
  }
  OnLoad({});
}

IdleWatch::~IdleWatch() {
  if (starter_.valid()) loop_->Unwatch(starter_.get());
}

void IdleWatch::EndSoon() {
  for_late_agents_ = std::chrono::milliseconds(0);
  WaitForNoFirstJob();
}

void IdleWatch::OnLoad(const JobLoopLoad& load) {
  if (ended_) return;
  load_ = load;
  loop_->CancelTimer(timer_);
  if (load.sessions != 0 || load.jobs != 0) return;
  const auto wait = load.awaited > 0      ? for_late_agents_
                    : load.jobs_begun > 0 ? std::chrono::milliseconds(0)
                                          : patience_;
  timer_ = loop_->AddTimer(EventLoop::Clock::now() + wait, [this] {
    LogInfo("no job is left: ending");
    ended_ = true;
    loop_->Quit();
  });
}

void IdleWatch::OnStarterEnded() {
  loop_->Unwatch(starter_.get());
  starter_.reset();
  WaitForNoFirstJob();
}

void IdleWatch::WaitForNoFirstJob() {
  patience_ = std::chrono::milliseconds(0);
  OnLoad(load_);
}

}  // namespace ddprun
