// Tells the agent that this process dies, before the kernel has freed its memory.
//
// A pidfd becomes readable, and sockets are closed, only when the kernel has freed the memory of a
// dead process. That takes 9 ms for 50 MB, 75 ms for 2 GB, and much longer with a GPU. The kernel
// releases a robust futex earlier (futex(2), get_robust_list(2)). So one thread of this process
// holds such a futex: a word of the progress page (worker/contract/progress_page.h). The thread
// does nothing else until the process dies.
#ifndef DDPRUN_WORKER_SRC_AGENT_DEATH_NOTICE_H_
#define DDPRUN_WORKER_SRC_AGENT_DEATH_NOTICE_H_

#include <linux/futex.h>

#include <atomic>
#include <cstdint>

#include "worker/contract/progress_page.h"

namespace ddp::internal {

// One thread at a time may call it.
class DeathNotice {
 public:
  // The object of this process. Never destroyed, because its thread lives until the process dies.
  static DeathNotice& Process();

  // From now on the kernel marks `page` when this process dies. Null: the kernel marks no page.
  // Call it with null or another page before `page` is unmapped. The first call with a page starts
  // the thread. If that fails, no page is ever marked.
  void SetPage(ddprun::ProgressPage* page);

 private:
  DeathNotice() = default;
  void StartThread();

  bool started_ = false;
  std::atomic<std::uint32_t> thread_{0};  // the thread's id; 0: the kernel does not know list_
  robust_list_head list_{};               // the kernel reads it when the thread dies
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_AGENT_DEATH_NOTICE_H_
