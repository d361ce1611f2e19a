// DeathWatch: learns that a worker dies from its progress page (worker/contract/progress_page.h),
// before the worker's pidfd becomes readable. worker/src/agent/death_notice.h says why it is
// earlier.
//
// A separate thread waits for the futexes in the pages (`keeper`). It needs futex_waitv(2) of Linux
// 5.16. On an older kernel, and for a worker that holds no futex, nothing is ever reported. So the
// pidfd must be watched, too.
#ifndef DDPRUN_LAUNCHER_OS_DEATH_WATCH_H_
#define DDPRUN_LAUNCHER_OS_DEATH_WATCH_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "launcher/os/event_loop.h"

namespace ddprun {

// Belongs to the loop's thread.
class DeathWatch {
 public:
  // Further pages are ignored. The kernel allows 128 futexes per wait, and one of them is changes_.
  static constexpr std::size_t kMostPages = 127;

  explicit DeathWatch(EventLoop* loop) : loop_(loop) {}
  ~DeathWatch();
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;

  // Calls `on_dying` once on the loop when the worker that holds this page's futex dies. `page` is
  // the page's descriptor (progress_page_file.h); it is not needed after the call.
  void Watch(int page, std::function<void()> on_dying);
  // Forgets all pages. No callback is called afterwards.
  void Clear();

 private:
  struct Page;

  void Run();
  void Wake();  // the thread looks at pages_ again
  void OnDying(const std::shared_ptr<Page>& page);

  EventLoop* const loop_;
  std::atomic<std::uint32_t> changes_{0};  // a futex
  std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<std::shared_ptr<Page>> pages_;
  bool ends_ = false;
  std::thread thread_;  // started by the first Watch()
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_DEATH_WATCH_H_
