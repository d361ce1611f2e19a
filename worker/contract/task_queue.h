// TaskQueue: tasks that wait in a queue, and a thread, or a few, that runs them in their order.
//
// For what may block on a disk, a terminal, a file server or another process while its owner must
// not: log files, the terminal, the journal, checkpoints, MUNGE. The queue has no bound of its own.
// Its owner counts what waits, and decides what happens when that is too much: drop it, merge it,
// or make the sender wait.
//
// A thread starts when there is a task for it, and takes no signals. One that hangs in a task keeps
// nobody from ending: CloseWithin() leaves it behind, to end with the process. So what is posted to
// a queue that is closed like that must share the ownership of everything it touches.
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

// Post, Wait, WaitUntil and idle: any thread. The others: the owner's, once nobody else posts.
class TaskQueue {
 public:
  // `name` is what `ps -L` shows, at most 15 characters.
  explicit TaskQueue(std::string name, std::size_t most_threads = 1)
      : name_(std::move(name)), most_threads_(most_threads) {}
  // Runs what is queued, however long that takes, unless CloseWithin came before.
  ~TaskQueue() {
    BeginClose();
    for (std::thread& thread : threads_) thread.join();
  }
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // Has `task()` run on a thread, soon, and destroyed there; it may own what cannot be copied, and
  // throws nothing. Returns at once. A task may post others.
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
  // Until then.
  void Wait() {
    std::unique_lock<std::mutex> lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->idle(); });
  }
  // The same until `deadline`; returns whether it is idle.
  bool WaitUntil(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock<std::mutex> lock(state_->mutex);
    return state_->changed.wait_until(lock, deadline, [this] { return state_->idle(); });
  }

  // Runs what is queued, for at most `grace`. Returns whether all of it ran; else the threads that
  // are still at it are left behind with the rest. The last call.
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
    std::condition_variable work;     // for a thread: a task, or the end
    std::condition_variable changed;  // for who waits: idle, or a thread has ended
    // Guarded by mutex.
    std::deque<std::unique_ptr<Task>> waiting;
    std::size_t running = 0;   // tasks
    std::size_t threads = 0;   // that have not ended
    std::size_t sleeping = 0;  // of these
    bool closing = false;
  };

  // No signal is handled on a thread that starts meanwhile, but for those of its own faults.
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

  // With the mutex held.
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
      task.reset();  // what it owns goes before anybody is told that it has run
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
