// TaskQueue: a queue of tasks, and one or a few threads that run them in order.
//
// It is for work that may block on a disk, a terminal, a file server or another process, while the
// queue's owner must not block: log files, the terminal, the rendezvous' journal, checkpoints, the
// authentication service MUNGE. The queue has no limit. The owner counts the waiting tasks. If
// there are too many, it drops tasks, merges them, or makes the sender wait.
//
// A thread starts when there is a task for it. The threads handle no signals. If a task hangs, the
// process can still end: CloseWithin() leaves the thread running until the process ends. So if a
// queue is closed with CloseWithin(), its tasks must share the ownership of everything they use.
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

// Any thread may call Post, Wait, WaitUntil and idle. Only the owner calls the other functions, and
// only once no other thread posts.
class TaskQueue {
 public:
  // `name` is shown by `ps -L`; at most 15 characters.
  explicit TaskQueue(std::string name, std::size_t most_threads = 1)
      : name_(std::move(name)), most_threads_(most_threads) {}
  // Runs all queued tasks, without a time limit. If CloseWithin was called, it does nothing.
  ~TaskQueue() {
    BeginClose();
    for (std::thread& thread : threads_) thread.join();
  }
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // Returns at once. A thread of the queue soon runs `task()`, and destroys the task. The task may
  // own move-only objects and may post other tasks. It must not throw.
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

  // Runs queued tasks for at most `grace`. True: all have run. False: tasks remain, and the threads
  // continue with them after this call. Must be the last call.
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
    std::condition_variable work;     // wakes threads: there is a task, or the queue closes
    std::condition_variable changed;  // wakes callers that wait: idle, or a thread has ended
    // Guarded by mutex.
    std::deque<std::unique_ptr<Task>> waiting;
    std::size_t running = 0;   // tasks
    std::size_t threads = 0;   // threads that have not ended
    std::size_t sleeping = 0;  // threads that wait for a task
    bool closing = false;
  };

  // A thread that starts while this object exists handles no signals except its own faults.
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

  // The caller holds the mutex.
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
      task.reset();  // destroys what the task owns before waiting callers learn that it has run
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
