#include "worker/src/agent/death_notice.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <system_error>
#include <thread>

namespace ddp::internal {

using ddprun::ProgressPage;

DeathNotice& DeathNotice::Process() {
  static DeathNotice* const notice = new DeathNotice;
  return *notice;
}

void DeathNotice::SetPage(ProgressPage* page) {
  if (page != nullptr && !started_) StartThread();
  // If the process dies while the list is empty, the agent notices it only later.
  std::atomic_ref<robust_list*>(list_.list.next).store(&list_.list);
  const std::uint32_t thread = thread_.load();
  if (page == nullptr || thread == 0) return;
  page->keeper.store(thread | FUTEX_WAITERS);
  auto* const entry = reinterpret_cast<robust_list*>(&page->keeper_list);
  entry->next = &list_.list;
  std::atomic_ref<robust_list*>(list_.list.next).store(entry);
}

void DeathNotice::StartThread() {
  started_ = true;
  list_.list.next = &list_.list;
  list_.futex_offset = static_cast<long>(offsetof(ProgressPage, keeper)) -
                       static_cast<long>(offsetof(ProgressPage, keeper_list));
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the thread inherits it, and handles no signal
  try {
    std::thread([this] {
      pthread_setname_np(pthread_self(), "ddp-alive");
      // glibc uses the robust list only for robust mutexes. This thread locks none, so it can have
      // another list.
      const bool held = syscall(SYS_set_robust_list, &list_, sizeof(list_)) == 0;
      thread_.store(held ? static_cast<std::uint32_t>(gettid()) : FUTEX_TID_MASK);
      thread_.notify_all();
      while (held) pause();
    }).detach();
    thread_.wait(0);
    if (thread_.load() == FUTEX_TID_MASK) thread_.store(0);
  } catch (const std::system_error&) {
    // No thread can be started: then there is no notice.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace ddp::internal
