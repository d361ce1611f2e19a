#include "launcher/os/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "launcher/os/check.h"

namespace ddprun {
namespace {

// epoll carries a watch's id instead of its descriptor. Ids are never reused, so an event of an
// ended watch cannot be taken for one of its successor.
constexpr std::uint64_t kWakeId = 0;
constexpr std::uint64_t kTimerId = 1;
constexpr std::uint64_t kFirstWatchId = 2;
constexpr int kEventsPerTurn = 64;

void AddToEpoll(int epoll, int fd, std::uint32_t events, std::uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  CheckSyscall(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl add");
}

void ClearCounter(int fd) {
  std::uint64_t count = 0;
  // Nonblocking: EAGAIN if it is cleared already.
  [[maybe_unused]] const ssize_t size = ::read(fd, &count, sizeof(count));
}

}  // namespace

EventLoop::EventLoop()
    : epoll_(CheckSyscall(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      timer_fd_(CheckSyscall(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
                             "timerfd_create")),
      wake_fd_(CheckSyscall(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      next_watch_id_(kFirstWatchId) {
  AddToEpoll(epoll_.get(), wake_fd_.get(), EPOLLIN, kWakeId);
  AddToEpoll(epoll_.get(), timer_fd_.get(), EPOLLIN, kTimerId);
}

EventLoop::~EventLoop() = default;

void EventLoop::Watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> callback) {
  Check(!watch_of_fd_.contains(fd), "EventLoop::Watch: the descriptor is watched already");
  const std::uint64_t id = next_watch_id_++;
  AddToEpoll(epoll_.get(), fd, events, id);
  watches_[id] = std::make_shared<WatchEntry>(WatchEntry{fd, std::move(callback)});
  watch_of_fd_[fd] = id;
}

void EventLoop::Modify(int fd, std::uint32_t events) {
  const auto found = watch_of_fd_.find(fd);
  Check(found != watch_of_fd_.end(), "EventLoop::Modify: the descriptor is not watched");
  epoll_event event{};
  event.events = events;
  event.data.u64 = found->second;
  CheckSyscall(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event), "epoll_ctl mod");
}

void EventLoop::Unwatch(int fd) {
  const auto found = watch_of_fd_.find(fd);
  Check(found != watch_of_fd_.end(), "EventLoop::Unwatch: the descriptor is not watched");
  CheckSyscall(epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr), "epoll_ctl del");
  watches_.erase(found->second);
  watch_of_fd_.erase(found);
}

EventLoop::TimerId EventLoop::AddTimer(Clock::time_point when, std::function<void()> callback) {
  const TimerId id = next_timer_++;
  timers_.emplace(std::pair(when, id), std::move(callback));
  time_of_timer_.emplace(id, when);
  return id;
}

void EventLoop::CancelTimer(TimerId timer) {
  const auto found = time_of_timer_.find(timer);
  if (found == time_of_timer_.end()) return;
  timers_.erase({found->second, timer});
  time_of_timer_.erase(found);
}

void EventLoop::SetDeadline(std::optional<Clock::time_point> when, std::function<void()> callback) {
  CancelTimer(deadline_);
  deadline_ = when ? AddTimer(*when, std::move(callback)) : 0;
}

void EventLoop::Post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  posted_.push_back(std::move(task));
  // Wake under the lock: otherwise the loop could run the task and be destroyed before the write.
  if (posted_.size() > 1) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t size = ::write(wake_fd_.get(), &one, sizeof(one));
}

void EventLoop::Run() {
  epoll_event events[kEventsPerTurn];
  while (!quit_) {
    ArmTimerFd();
    const int count = epoll_wait(epoll_.get(), events, kEventsPerTurn, -1);
    if (count < 0 && errno == EINTR) continue;
    CheckSyscall(count, "epoll_wait");
    for (int i = 0; i < count && !quit_; ++i) Dispatch(events[i].data.u64, events[i].events);
  }
  quit_ = false;
}

void EventLoop::Dispatch(std::uint64_t watch_id, std::uint32_t events) {
  if (watch_id == kWakeId) return RunPosted();
  if (watch_id == kTimerId) return RunDueTimers();
  const auto found = watches_.find(watch_id);
  if (found == watches_.end()) return;  // unwatched by an earlier callback of this turn
  // The copy keeps the callback alive if it unwatches itself.
  const std::shared_ptr<WatchEntry> entry = found->second;
  entry->callback(events);
}

void EventLoop::RunPosted() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    ClearCounter(wake_fd_.get());
    tasks.swap(posted_);
  }
  std::size_t done = 0;
  while (done < tasks.size() && !quit_) tasks[done++]();
  if (done == tasks.size()) return;
  // After Quit() the rest goes back to the front, and the next Run() is woken.
  const std::lock_guard lock(mutex_);
  posted_.insert(posted_.begin(),
                 std::make_move_iterator(tasks.begin() + static_cast<std::ptrdiff_t>(done)),
                 std::make_move_iterator(tasks.end()));
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t size = ::write(wake_fd_.get(), &one, sizeof(one));
}

void EventLoop::RunDueTimers() {
  ClearCounter(timer_fd_.get());
  armed_.reset();
  const Clock::time_point now = Clock::now();
  std::vector<std::pair<Clock::time_point, TimerId>> due;
  for (const auto& [key, callback] : timers_) {
    if (key.first > now) break;
    due.push_back(key);
  }
  for (const auto& key : due) {
    if (quit_) return;  // the rest stays in timers_
    const auto found = timers_.find(key);
    if (found == timers_.end()) continue;  // cancelled by an earlier callback
    const std::function<void()> callback = std::move(found->second);
    timers_.erase(found);
    time_of_timer_.erase(key.second);
    callback();
  }
}

void EventLoop::ArmTimerFd() {
  std::optional<Clock::time_point> first;
  if (!timers_.empty()) first = timers_.begin()->first.first;
  if (first == armed_) return;
  itimerspec spec{};
  if (first) {
    // steady_clock is CLOCK_MONOTONIC. A zero time would disarm the timer instead of firing it.
    const std::int64_t ns =
        std::max<std::int64_t>(1, std::chrono::nanoseconds(first->time_since_epoch()).count());
    spec.it_value.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
    spec.it_value.tv_nsec = static_cast<long>(ns % 1'000'000'000);
  }
  CheckSyscall(timerfd_settime(timer_fd_.get(), TFD_TIMER_ABSTIME, &spec, nullptr),
               "timerfd_settime");
  armed_ = first;
}

}  // namespace ddprun
