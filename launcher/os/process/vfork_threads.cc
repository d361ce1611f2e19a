#include "launcher/os/process/vfork_threads.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <semaphore>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "launcher/os/process/block_signals.h"

namespace ddprun {

struct VforkThreads::Child {
  Become become;
  std::atomic<pid_t> pid{0};  // 0: not made yet; negative: an errno, the fork failed
  bool may_allocate = false;

  void Exists(pid_t value) {
    pid.store(value);
    pid.notify_one();
  }
};

struct VforkThreads::Thread {
  std::shared_ptr<Child> child;  // set while the thread is not idle
  std::binary_semaphore has_child{0};
  std::atomic<bool> idle{false};
};

// A separate function: the child uses the same stack, and must not overwrite Run's frame.
[[gnu::noinline]] void VforkThreads::Vfork(Child* child) {
  const BlockAllSignals blocked;
  const pid_t pid = ::vfork();
  if (pid == 0) {
    child->Exists(::getpid());
    child->become([child] { child->may_allocate = true; });
    ::_exit(127);
  }
  // The child has called Exists already, unless a tool turned vfork into fork.
  child->Exists(pid > 0 ? pid : -errno);
}

void VforkThreads::Run(const std::shared_ptr<Thread>& thread) {
  for (;;) {
    thread->has_child.acquire();
    const std::shared_ptr<Child> child = std::move(thread->child);
    Vfork(child.get());
    if (child->may_allocate) break;
    thread->idle.store(true);
  }
  for (;;) ::pause();
}

VforkThreads::Thread* VforkThreads::Idle() {
  const auto idle = std::find_if(threads_.begin(), threads_.end(),
                                 [](const auto& thread) { return thread->idle.load(); });
  if (idle != threads_.end()) {
    (*idle)->idle.store(false);
    return idle->get();
  }
  auto thread = std::make_shared<Thread>();
  const BlockAllSignals blocked;  // signals are for the caller's thread
  std::thread([thread] { Run(thread); }).detach();
  threads_.push_back(std::move(thread));
  return threads_.back().get();
}

#ifdef __SANITIZE_THREAD__
// TSan turns each vfork into a fork, and a forked process cannot start threads.
absl::StatusOr<pid_t> VforkThreads::Start(Become become) {
  const BlockAllSignals blocked;
  const pid_t pid = ::fork();
  if (pid == 0) {
    become([] {});
    ::_exit(127);
  }
  if (pid < 0) return absl::ErrnoToStatus(errno, "no more processes");
  return pid;
}
#else
absl::StatusOr<pid_t> VforkThreads::Start(Become become) {
  auto child = std::make_shared<Child>();
  child->become = std::move(become);
  try {
    Thread* const thread = Idle();
    thread->child = child;
    thread->has_child.release();
  } catch (const std::system_error& error) {
    return absl::ErrnoToStatus(error.code().value(), "no more threads");
  }
  child->pid.wait(0);
  const pid_t pid = child->pid.load();
  if (pid < 0) return absl::ErrnoToStatus(-pid, "no more processes");
  return pid;
}
#endif

}  // namespace ddprun
