// TaskQueue: a queue of tasks, and one thread, or a few, that runs them in order.
//
// For work that may block on a disk, a terminal, a file server or another process while the owner
// must not block: log files, the terminal, the journal, checkpoints, MUNGE. The queue is unbounded.
// The owner counts waiting tasks and decides what happens if there are too many: drop, merge, or
// make the sender wait.
//
// A thread starts when there is a task for it; it handles no signals. A thread that hangs in a task
// does not keep the process from ending: CloseWithin() leaves it running until the process ends. So
// the tasks of a queue that is closed like that must share the ownership of everything they use.
//
// Standard library only, header only: shared by launcher, rendezvous and worker library.
#ifndef DDPRUN_WORKER_CONTRACT_TASK_QUEUE_H_
#define DDPRUN_WORKER_CONTRACT_TASK_QUEUE_H_

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun {

// Any thread may call Post, Wait, WaitUntil and idle. The owner calls the rest, once nobody else
// posts.
class TaskQueue {
 public:
  // `name`: shown by `ps -L`, at most 15 characters.
  explicit TaskQueue(std::string name, std::size_t most_threads = 1)
      : name_(std::move(name)), most_threads_(most_threads) {}
  // Runs all queued tasks, without a time limit, unless CloseWithin was called.
  ~TaskQueue() {
    BeginClose();
    for (std::thread& thread : threads_) thread.join();
  }
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // Runs `task()` on a thread, soon, and destroys it there. The task may own move-only objects,
  // must not throw, and may post other tasks. Returns at once.
  template <class Function>
  void Post(Function task) {
    auto owned = std::make_unique<TaskOf<Function>>(std::move(task));
    const std::lock_guard<std::mutex> lock(state_->mutex);
    const bool all_busy = state_->waiting.size() >= state_->sleeping;
    if (all_busy && state_->threads < most_threads_ && !state_->closing) StartThread();
    state_->waiting.push_back(std::move(owned));
    state_->work.notify_one();
  }

  // No task is queued or running.
  bool idle() const {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    return state_->idle();
  }
  // Waits until idle().
  void Wait() {
    std::unique_lock<std::mutex> lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->idle(); });
  }
  // Waits until idle() or `deadline`; returns idle().
  bool WaitUntil(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock<std::mutex> lock(state_->mutex);
    return state_->changed.wait_until(lock, deadline, [this] { return state_->idle(); });
  }

  // Runs queued tasks for at most `grace`. True: all have run. False: the threads that still run
  // are left, with the remaining tasks. The last call.
  bool CloseWithin(std::chrono::milliseconds grace) {
    BeginClose();
    std::unique_lock<std::mutex> lock(state_->mutex);
    const bool ended =
        state_->changed.wait_for(lock, grace, [this] { return state_->threads == 0; });
    lock.unlock();
    for (std::thread& thread : threads_) ended ? thread.join() : thread.detach();
    threads_.clear();
    return ended;
  }

 private:
  struct Task {
    virtual ~Task() = default;
    virtual void Run() = 0;
  };
  template <class Function>
  struct TaskOf final : Task {
    explicit TaskOf(Function function) : function(std::move(function)) {}
    void Run() override { function(); }
    Function function;
  };

  // Shared with the threads.
  struct State {
    bool idle() const { return running == 0 && waiting.empty(); }

    std::mutex mutex;
    std::condition_variable work;     // for threads: a task, or the end
    std::condition_variable changed;  // for waiters: idle, or a thread has ended
    // Guarded by mutex.
    std::deque<std::unique_ptr<Task>> waiting;
    std::size_t running = 0;   // tasks
    std::size_t threads = 0;   // threads that have not ended
    std::size_t sleeping = 0;  // of these, those that wait for a task
    bool closing = false;
  };

  // Threads that start during its lifetime handle no signals except their own faults.
  class SignalsBlocked {
   public:
    SignalsBlocked() {
      sigset_t all;
      sigfillset(&all);
      for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
        sigdelset(&all, fault);
      }
      pthread_sigmask(SIG_SETMASK, &all, &previous_);
    }
    ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

   private:
    sigset_t previous_;
  };

  // Call it with the mutex held.
  void StartThread() {
    const SignalsBlocked blocked;
    threads_.emplace_back([state = state_] { Run(*state); });
    ++state_->threads;
    pthread_setname_np(threads_.back().native_handle(), name_.c_str());
  }

  void BeginClose() {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->closing = true;
    state_->work.notify_all();
  }

  static void Run(State& state) {
    std::unique_lock<std::mutex> lock(state.mutex);
    for (;;) {
      ++state.sleeping;
      state.work.wait(lock, [&state] { return state.closing || !state.waiting.empty(); });
      --state.sleeping;
      if (state.waiting.empty()) break;
      std::unique_ptr<Task> task = std::move(state.waiting.front());
      state.waiting.pop_front();
      ++state.running;
      lock.unlock();
      task->Run();
      task.reset();  // destroys what it owns before waiters learn that it has run
      lock.lock();
      --state.running;
      if (state.idle()) state.changed.notify_all();
    }
    --state.threads;
    state.changed.notify_all();
  }

  const std::string name_;
  const std::size_t most_threads_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::vector<std::thread> threads_;  // guarded by the mutex until the queue is closing
};

}  // namespace ddprun

#endif  // DDPRUN_WORKER_CONTRACT_TASK_QUEUE_H_
