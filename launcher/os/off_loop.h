// OffLoop: does on a thread of its own what may wait for a disk or a file server, and hands the
// result to the loop.
//
// The loop's thread makes it and calls everything. The works run one after the other, in the order
// in which they were given. When this object goes, what has not run is dropped, a work that hangs
// is left behind, and no result is handed over any more: so a work shares the ownership of
// everything that it touches.
#ifndef DDPRUN_LAUNCHER_OS_OFF_LOOP_H_
#define DDPRUN_LAUNCHER_OS_OFF_LOOP_H_

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "launcher/os/event_loop.h"
#include "worker/contract/task_queue.h"

namespace ddprun {

class OffLoop {
 public:
  // `loop` must outlive this object. `name` is what `ps -L` shows, at most 15 characters.
  OffLoop(EventLoop* loop, std::string name)
      : tasks_(std::move(name)), receiver_(std::make_shared<Receiver>(loop)) {}
  ~OffLoop() {
    {
      const std::lock_guard<std::mutex> lock(receiver_->mutex);
      receiver_->loop = nullptr;
    }
    tasks_.CloseWithin(std::chrono::milliseconds(0));
  }
  OffLoop(const OffLoop&) = delete;
  OffLoop& operator=(const OffLoop&) = delete;

  // Has `work()` run on the thread, and then `done(its result)` on the loop.
  template <class Work, class Done>
  void Run(Work work, Done done) {
    tasks_.Post([receiver = receiver_, work = std::move(work), done = std::move(done)]() mutable {
      if (receiver->IsGone()) return;
      auto result = work();
      const std::lock_guard<std::mutex> lock(receiver->mutex);
      if (receiver->loop == nullptr) return;
      receiver->loop->Post([receiver, done = std::move(done), result = std::move(result)] {
        if (receiver->loop != nullptr) done(result);  // only the loop's thread changes it
      });
    });
  }
  // The same, where nobody waits for it.
  template <class Work>
  void Run(Work work) {
    tasks_.Post([receiver = receiver_, work = std::move(work)] {
      if (!receiver->IsGone()) work();
    });
  }

 private:
  struct Receiver {
    explicit Receiver(EventLoop* its_loop) : loop(its_loop) {}
    bool IsGone() {
      const std::lock_guard<std::mutex> lock(mutex);
      return loop == nullptr;
    }

    std::mutex mutex;
    EventLoop* loop;  // nullptr: nobody waits any more; guarded by mutex
  };

  TaskQueue tasks_;
  const std::shared_ptr<Receiver> receiver_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_OFF_LOOP_H_
