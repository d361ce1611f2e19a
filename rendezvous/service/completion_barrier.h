// CompletionBarrier: lets JobLoop write to thousands of streams without waking gRPC's threads for
// each stream.
//
// gRPC reports each finished write to the thread of the call's queue, and wakes this thread if it
// sleeps. On a machine with few cores this costs two thread switches per message: half of a
// message's cost. While a Burst exists, a thread with such a report waits here. Further reports
// queue up behind it, and are handled together when the barrier opens.
//
//     CompletionBarrier::Burst burst(&barrier, messages);   // in JobLoop, before it writes
//     barrier.Pass();                                       // first, after a finished write
#ifndef DDPRUN_RENDEZVOUS_SERVICE_COMPLETION_BARRIER_H_
#define DDPRUN_RENDEZVOUS_SERVICE_COMPLETION_BARRIER_H_

#include <cstddef>
#include <mutex>
#include <shared_mutex>

namespace ddprun {

class CompletionBarrier {
 public:
  // Closes the barrier for its lifetime, if `writes` is large enough to pay off. One thread, one
  // burst at a time.
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

  // Returns when the barrier is open; at once on the thread that closed it.
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
