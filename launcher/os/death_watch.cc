#include "launcher/os/death_watch.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "worker/contract/progress_page.h"
#include "worker/contract/time_slice.h"

namespace ddprun {
namespace {

futex_waitv WaiterFor(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                      std::uint32_t flags) {
  futex_waitv waiter{};
  waiter.val = value;
  waiter.uaddr = reinterpret_cast<std::uintptr_t>(&word);
  waiter.flags = FUTEX_32 | flags;
  return waiter;
}

}  // namespace

struct DeathWatch::Page {
  Page(void* memory, std::function<void()> on_dying)
      : memory(memory), on_dying(std::move(on_dying)) {}
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  ~Page() { ::munmap(memory, kProgressFileBytes); }

  const std::atomic<std::uint32_t>& keeper() const {
    return static_cast<const ProgressPage*>(memory)->keeper;
  }

  void* const memory;
  const std::function<void()> on_dying;
  bool reported = false;  // for the thread only
};

DeathWatch::~DeathWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
}

void DeathWatch::Watch(int page, std::function<void()> on_dying) {
  void* const memory = ::mmap(nullptr, kProgressFileBytes, PROT_READ, MAP_SHARED, page, 0);
  if (memory == MAP_FAILED) return;
  {
    const std::lock_guard lock(mutex_);
    auto added = std::make_shared<Page>(memory, std::move(on_dying));
    if (pages_.size() < kMostPages) pages_.push_back(std::move(added));
  }
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    // No thread can be started. The next Watch() tries again.
  }
  Wake();
}

void DeathWatch::Clear() {
  {
    const std::lock_guard lock(mutex_);
    pages_.clear();
  }
  Wake();
}

void DeathWatch::Wake() {
  ++changes_;
  ::syscall(SYS_futex, &changes_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void DeathWatch::OnDying(const std::shared_ptr<Page>& page) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find(pages_.begin(), pages_.end(), page);
    if (found == pages_.end()) return;  // forgotten meanwhile
    pages_.erase(found);
  }
  page->on_dying();
}

void DeathWatch::Run() {
  ::pthread_setname_np(::pthread_self(), "ddprun-deaths");
  RunAsSoonAsWoken();
  for (;;) {
    const std::uint32_t changes = changes_.load();
    std::vector<std::shared_ptr<Page>> pages;
    {
      const std::lock_guard lock(mutex_);
      if (ends_) return;
      pages = pages_;
    }
    std::vector<futex_waitv> waiters{WaiterFor(changes_, changes, FUTEX_PRIVATE_FLAG)};
    for (const std::shared_ptr<Page>& page : pages) {
      const std::uint32_t keeper = page->keeper().load();
      if ((keeper & FUTEX_OWNER_DIED) == 0) {
        waiters.push_back(WaiterFor(page->keeper(), keeper, 0));
      } else if (!std::exchange(page->reported, true)) {
        loop_->Post([this, page] { OnDying(page); });
      }
    }
    const long woken =
        ::syscall(SYS_futex_waitv, waiters.data(), waiters.size(), 0, nullptr, CLOCK_MONOTONIC);
    if (woken < 0 && errno != EAGAIN && errno != EINTR) return;  // this kernel cannot do it
  }
}

}  // namespace ddprun
