// SerialExecutor: hands queued events to a handler, one thread at a time.
//
// The thread that brings an event handles it, with all else that is queued, so that most events
// wake no other thread; where one is at it already, that one goes on, or the executor's own thread,
// which also comes when it is time for something. A thread that handles sees every event that was
// queued before the time that it is told.
//
// Thread-safe. Owned by the owner of the handler.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOB_SERIAL_EXECUTOR_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOB_SERIAL_EXECUTOR_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/core/types.h"

namespace ddprun {

template <class Event>
class SerialExecutor {
 public:
  // Called by one thread at a time, each of which sees what the one before has done. It may post.
  class Handler {
   public:
    // Handles these events, in their order, and then what it is time for at `now`. Returns when it
    // is to be called again though nothing comes.
    virtual TimePoint Handle(std::vector<Event>& events, TimePoint now) = 0;
    // The last call, on the executor's own thread, with what was queued before Shutdown.
    virtual void HandleLast(std::vector<Event>& events, TimePoint now) = 0;

   protected:
    ~Handler() = default;
  };

  // Who handles an event.
  enum class By {
    kWhoeverIsNext,  // it has time: nobody is woken for it
    kThread,         // the executor's own
    kCaller,         // it and all else that is queued, unless another thread is at it
  };

  // `handler` outlives the executor's thread.
  explicit SerialExecutor(Handler* handler) : handler_(handler) {}
  ~SerialExecutor() { Shutdown(); }
  SerialExecutor(const SerialExecutor&) = delete;
  SerialExecutor& operator=(const SerialExecutor&) = delete;

  // Starts the thread, which calls the handler at `first` if nothing comes before. Once, before the
  // others.
  void Start(TimePoint first) {
    next_deadline_ = first;
    thread_ = std::thread([this] { Run(); });
  }

  // From any thread that holds nothing which the handler needs. Returns false, and the event is
  // gone, after Shutdown.
  bool Post(Event event, By by = By::kThread) {
    std::unique_lock lock(mutex_);
    if (shutdown_) return false;
    queue_.push_back(std::move(event));
    if (by == By::kCaller && !handling_) {
      HandleQueue(lock);
    } else if (by != By::kWhoeverIsNext && !std::exchange(woken_, true) && !handling_) {
      wake_.notify_one();
    }
    return true;
  }

  // Has the last events handled, and ends the thread. Idempotent; not from within the handler.
  void Shutdown() {
    {
      const std::lock_guard lock(mutex_);
      shutdown_ = true;
      wake_.notify_one();
    }
    const std::lock_guard lock(join_mutex_);
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (AwaitWork(lock)) HandleQueue(lock);
    wake_.wait(lock, [this] { return !handling_; });
    const TimePoint now = std::chrono::steady_clock::now();
    events_.swap(queue_);
    lock.unlock();  // nobody else handles anything after Shutdown
    handler_->HandleLast(events_, now);
  }

  // Waits until there is something for the thread, and nobody is at it. False: it is to end. With
  // mutex_ held before and after.
  bool AwaitWork(std::unique_lock<std::mutex>& lock) {
    while (!shutdown_ && (handling_ || !woken_)) {
      if (woken_) {
        wake_.wait(lock);  // for who handles what there was
        continue;
      }
      const TimePoint until = sleeps_until_ = next_deadline_;
      const bool over = wake_.wait_until(lock, until) == std::cv_status::timeout;
      if (over && until >= next_deadline_) woken_ = true;
    }
    return !shutdown_;
  }

  // Handles what is queued, and leaves what comes meanwhile to the thread. With mutex_ held before
  // and after.
  void HandleQueue(std::unique_lock<std::mutex>& lock) {
    handling_ = true;
    woken_ = false;
    // Read before the queue is taken: what is queued later belongs to a later time.
    const TimePoint now = std::chrono::steady_clock::now();
    events_.swap(queue_);
    lock.unlock();
    const TimePoint next = handler_->Handle(events_, now);
    events_.clear();
    lock.lock();
    handling_ = false;
    next_deadline_ = next;
    if (woken_ || shutdown_ || next_deadline_ < sleeps_until_) wake_.notify_one();
  }

  Handler* const handler_;

  std::mutex mutex_;
  std::condition_variable wake_;  // the thread's
  // Guarded by mutex_.
  std::vector<Event> queue_;
  bool handling_ = false;  // a thread is at events_
  bool woken_ = false;     // there is something for the thread
  bool shutdown_ = false;
  TimePoint next_deadline_;  // when there is something to do though nothing comes
  TimePoint sleeps_until_;   // the thread; at the latest

  std::vector<Event> events_;  // in progress; of who has set handling_

  std::mutex join_mutex_;  // held while thread_ is joined
  std::thread thread_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_SERIAL_EXECUTOR_H_
