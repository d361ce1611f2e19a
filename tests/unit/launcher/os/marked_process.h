// A process that holds the robust futex of a progress page, like a worker with the C++ library.
// When the process dies, the kernel marks the page.
#ifndef DDPRUN_TESTS_UNIT_LAUNCHER_OS_MARKED_PROCESS_H_
#define DDPRUN_TESTS_UNIT_LAUNCHER_OS_MARKED_PROCESS_H_

#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <thread>

#include "tests/support/ready_process.h"
#include "worker/contract/progress_page.h"

namespace ddprun {

class MarkedProcess : public ReadyProcess {
 public:
  // `page`: the descriptor of the page.
  explicit MarkedProcess(int page) : ReadyProcess([page] { Mark(page); }) {}

 private:
  static void Mark(int descriptor) {
    auto* const page = static_cast<ProgressPage*>(
        ::mmap(nullptr, kProgressFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
    std::thread([page] {
      static robust_list_head head;
      auto* const entry = reinterpret_cast<robust_list*>(&page->keeper_list);
      head.list.next = entry;
      entry->next = &head.list;
      head.futex_offset = static_cast<long>(offsetof(ProgressPage, keeper)) -
                          static_cast<long>(offsetof(ProgressPage, keeper_list));
      ::syscall(SYS_set_robust_list, &head, sizeof(head));
      page->keeper.store(static_cast<std::uint32_t>(::gettid()) | FUTEX_WAITERS);
      for (;;) ::pause();
    }).detach();
    while (page->keeper.load() == 0) ::sched_yield();
  }
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_LAUNCHER_OS_MARKED_PROCESS_H_
