// The agent's one event loop: descriptors, timers and tasks from other threads, on one thread.
//
// One thread (main) makes the loop, runs it and owns everything that its callbacks touch, so the
// agent's state needs no lock. Other threads may call only Post(). A callback must not block: I/O
// to disks and terminals has separate threads (writer_thread.h, console_writer.h).
//
//     EventLoop loop;
//     loop.Watch(fd, EPOLLIN, [&](uint32_t events) { ... loop.Quit(); });
//     loop.AddTimer(EventLoop::Clock::now() + 10s, [&] { ... });
//     loop.Run();
//
// Every descriptor the loop makes is close-on-exec. It is built on epoll (level-triggered), one
// timerfd on CLOCK_MONOTONIC and one eventfd.
#ifndef DDPRUN_LAUNCHER_OS_EVENT_LOOP_H_
#define DDPRUN_LAUNCHER_OS_EVENT_LOOP_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "worker/contract/unique_fd.h"

namespace ddprun {

class EventLoop {
 public:
  using Clock = std::chrono::steady_clock;
  using TimerId = std::uint64_t;  // never 0, never used twice

  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Calls `callback` with the ready events whenever `fd` has any of `events` (EPOLLIN, EPOLLOUT),
  // an error or a hang-up. epoll always reports errors and hang-ups. The caller still owns `fd`,
  // and must unwatch it before closing it. One watch per descriptor; regular files cannot be
  // watched.
  void Watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> callback);

  // Replaces the watched events of `fd`. To pause a pipe, use Unwatch: even without events, epoll
  // would report a hang-up again and again.
  void Modify(int fd, std::uint32_t events);

  // Ends a watch. Safe in any callback, including the callback of this watch. Afterwards no
  // callback of this watch runs, even if the same epoll_wait has reported it, and even if the
  // number of `fd` is reused.
  void Unwatch(int fd);

  // Calls `callback` once, not before `when`. Due timers run in the order of their times; timers
  // with equal times run in the order in which they were added. If a callback adds a timer that is
  // already due, the new timer runs in the next turn, so timers cannot starve descriptors.
  TimerId AddTimer(Clock::time_point when, std::function<void()> callback);

  // Cancels the timer. Ignored if it has run or was cancelled before.
  void CancelTimer(TimerId timer);

  // Sets the loop's single deadline. For the owner of a state machine such as Supervisor: its
  // NextDeadline() says when to call Step(Tick) next. Each call replaces the previous deadline;
  // nullopt: none.
  void SetDeadline(std::optional<Clock::time_point> when, std::function<void()> callback);

  // Any thread: runs `task` on the loop's thread, in the order of posting. The loop must outlive
  // the call. A task that is posted after Run() has returned waits for the next Run().
  void Post(std::function<void()> task);

  // Serves until Quit(). Not reentrant.
  void Run();

  // The loop's thread only: Run() returns after the running callback. Before Run(), the next Run()
  // returns at once. Pending events and tasks wait for the next Run().
  void Quit() { quit_ = true; }

 private:
  struct WatchEntry {
    int fd;
    std::function<void(std::uint32_t)> callback;
  };

  void Dispatch(std::uint64_t watch_id, std::uint32_t events);
  void RunPosted();
  void RunDueTimers();
  void ArmTimerFd();

  // Constant after construction.
  UniqueFd epoll_;
  UniqueFd timer_fd_;
  UniqueFd wake_fd_;

  // The loop's thread only.
  bool quit_ = false;
  std::uint64_t next_watch_id_;
  std::unordered_map<std::uint64_t, std::shared_ptr<WatchEntry>> watches_;
  std::unordered_map<int, std::uint64_t> watch_of_fd_;
  TimerId next_timer_ = 1;
  std::map<std::pair<Clock::time_point, TimerId>, std::function<void()>> timers_;
  std::unordered_map<TimerId, Clock::time_point> time_of_timer_;
  std::optional<Clock::time_point> armed_;  // the time set in timer_fd_
  TimerId deadline_ = 0;

  // Guarded by mutex_.
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_EVENT_LOOP_H_
