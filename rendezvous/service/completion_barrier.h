// CompletionBarrier: lets JobLoop write to thousands of streams without waking gRPC's threads for
// each.
//
// gRPC reports each write that is done to the thread of the call's queue, and wakes it if it
// sleeps: on a machine of few cores two switches of threads per message, half of what a message
// costs. While a Burst lasts, the threads that come with such a report wait here; further reports
// queue up behind them, and are taken together once the barrier is open again.
//
//     CompletionBarrier::Burst burst(&barrier, messages);   // within the loop
//     barrier.Pass();                               // first when a write is done
#ifndef DDPRUN_RENDEZVOUS_SERVICE_COMPLETION_BARRIER_H_
#define DDPRUN_RENDEZVOUS_SERVICE_COMPLETION_BARRIER_H_

#include <cstddef>
#include <mutex>
#include <shared_mutex>

namespace ddprun {

class CompletionBarrier {
 public:
  // Closes the barrier for as long as it lives, if `writes` are so many that it pays. One thread,
  // one at a time.
  class Burst {
   public:
    Burst(CompletionBarrier* barrier, std::size_t writes)
        : barrier_(writes < kFewest ? nullptr : barrier) {
      if (barrier_ != nullptr) barrier_->Close();
    }
    ~Burst() {
      if (barrier_ != nullptr) barrier_->Open();
    }
    Burst(const Burst&) = delete;
    Burst& operator=(const Burst&) = delete;

   private:
    static constexpr std::size_t kFewest = 16;

    CompletionBarrier* const barrier_;  // outlives the burst; nullptr: not closed
  };

  // Returns when the barrier is open; at once on the thread that has closed it.
  void Pass() {
    if (closed_here_) return;
    const std::shared_lock lock(mutex_);
  }

 private:
  void Close() {
    mutex_.lock();
    closed_here_ = true;
  }
  void Open() {
    closed_here_ = false;
    mutex_.unlock();
  }

  static inline thread_local bool closed_here_ = false;
  std::shared_mutex mutex_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_COMPLETION_BARRIER_H_
