// OffLoop: runs work that may wait for a disk or file server on a separate thread, and hands the
// result to the loop.
//
// The loop's thread makes the object and calls all functions. Work runs one piece at a time, in the
// order of the calls. The destructor drops pending work, and all results that are not handed over
// yet. It does not wait for running work. So work must share the ownership of everything that it
// uses.
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

  // Runs `work()` on the thread, then `done(result)` on the loop.
  template <class Work, class Done>
  void Run(Work work, Done done) {
    tasks_.Post([receiver = receiver_, work = std::move(work), done = std::move(done)]() mutable {
      if (receiver->IsGone()) return;
      auto result = work();
      const std::lock_guard<std::mutex> lock(receiver->mutex);
      if (receiver->loop == nullptr) return;
      receiver->loop->Post([receiver, done = std::move(done), result = std::move(result)] {
        if (receiver->loop != nullptr) done(result);  // no lock: only the loop's thread writes it
      });
    });
  }
  // The same, without a result.
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
    EventLoop* loop;  // nullptr: the OffLoop is gone; guarded by mutex
  };

  TaskQueue tasks_;
  const std::shared_ptr<Receiver> receiver_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_OS_OFF_LOOP_H_
