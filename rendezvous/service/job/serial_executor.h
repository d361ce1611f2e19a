// SerialExecutor: passes queued events to a handler, from one thread at a time.
//
// The caller of Post chooses who handles the event (By). By default this is the executor's own
// thread, which deadlines wake, too. With By::kCaller the thread that posts the event handles it
// and all other queued events, so that most events wake no other thread. If another thread is
// already handling events, the executor's own thread, or the next thread that posts with kCaller,
// handles the event afterwards. The handler gets a time, and all events that were queued before
// that time.
//
// Thread-safe. Owned by the handler's owner.
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
  // Called by one thread at a time; each call happens-before the next. It may call Post.
  class Handler {
   public:
    // Handles these events in order, then what is due at `now`. Returns the time of the next call
    // if no event comes.
    virtual TimePoint Handle(std::vector<Event>& events, TimePoint now) = 0;
    // The last call, on the executor's own thread, with the events queued before Shutdown.
    virtual void HandleLast(std::vector<Event>& events, TimePoint now) = 0;

   protected:
    ~Handler() = default;
  };

  // Which thread handles an event.
  enum class By {
    kWhoeverIsNext,  // the next thread that handles events: no thread is woken
    kThread,         // the executor's own thread
    kCaller,         // the caller, with all queued events, unless another thread handles already
  };

  // `handler` outlives the executor's thread.
  explicit SerialExecutor(Handler* handler) : handler_(handler) {}
  ~SerialExecutor() { Shutdown(); }
  SerialExecutor(const SerialExecutor&) = delete;
  SerialExecutor& operator=(const SerialExecutor&) = delete;

  // Starts the thread. The thread calls `prepare`, then the handler at `first` if no event comes
  // before. Once, before the other functions.
  void Start(
      TimePoint first, void (*prepare)() = [] {}) {
    next_deadline_ = first;
    thread_ = std::thread([this, prepare] {
      prepare();
      Run();
    });
  }

  // From any thread that holds no lock the handler needs. False: Shutdown was called before, and
  // the event is dropped.
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

  // Handles the last events, and ends the thread. Idempotent; not from within the handler.
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
    lock.unlock();  // no other thread handles events after Shutdown
    handler_->HandleLast(events_, now);
  }

  // Waits until there is work for this thread and no other thread is handling events. False: the
  // thread must end. With mutex_ held before and after.
  bool AwaitWork(std::unique_lock<std::mutex>& lock) {
    while (!shutdown_ && (handling_ || !woken_)) {
      if (woken_) {
        wake_.wait(lock);  // until the other thread has finished
        continue;
      }
      const TimePoint until = sleeps_until_ = next_deadline_;
      const bool over = wake_.wait_until(lock, until) == std::cv_status::timeout;
      if (over && until >= next_deadline_) woken_ = true;
    }
    return !shutdown_;
  }

  // Handles the queued events. The executor's thread handles the events that come meanwhile. With
  // mutex_ held before and after.
  void HandleQueue(std::unique_lock<std::mutex>& lock) {
    handling_ = true;
    woken_ = false;
    // Read before the queue is taken, so that all events from before `now` are in it.
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
  std::condition_variable wake_;  // the executor's thread waits on it
  // Guarded by mutex_.
  std::vector<Event> queue_;
  bool handling_ = false;  // a thread is handling events_
  bool woken_ = false;     // the executor's thread has work
  bool shutdown_ = false;
  TimePoint next_deadline_;  // time of the next call if no event comes
  TimePoint sleeps_until_;   // the executor's thread wakes by then

  std::vector<Event> events_;  // being handled; used by the thread that set handling_

  std::mutex join_mutex_;  // held while thread_ is joined
  std::thread thread_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOB_SERIAL_EXECUTOR_H_
