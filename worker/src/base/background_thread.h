// A thread that does one thing at a time, so that another one need not wait for it.
#ifndef DDPRUN_WORKER_SRC_BASE_BACKGROUND_THREAD_H_
#define DDPRUN_WORKER_SRC_BASE_BACKGROUND_THREAD_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ddp::internal {

// All functions on one thread, which owns this.
class BackgroundThread {
 public:
  BackgroundThread() = default;
  ~BackgroundThread();  // waits
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  // Has `task` run on the thread; waits first if another one is not finished. What `task` uses must
  // stay as it is until Wait() returns, or busy() is false. `task` throws nothing.
  void Start(std::function<void()> task);

  bool busy() const;  // a task is not finished
  void Wait();        // until none is

 private:
  void Run();

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::function<void()> task_;
  bool busy_ = false;
  bool ending_ = false;

  std::thread thread_;  // runs from the first Start() on
};

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_BACKGROUND_THREAD_H_
