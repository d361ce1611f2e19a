// BurstGate: lets RoundLoop write to thousands of streams without waking gRPC's threads for each.
//
// gRPC reports each write that is done to the thread of the call's queue, and wakes it if it
// sleeps: on a machine of few cores two switches of threads per message, half of what a message
// costs. While a Burst lasts, the threads that come with such a report wait here; further reports
// queue up behind them, and are taken together once the gate is open again.
//
//     BurstGate::Burst burst(&gate, messages);   // within the loop
//     gate.Pass();                               // first when a write is done
#ifndef DDPRUN_RENDEZVOUS_SERVICE_BURST_GATE_H_
#define DDPRUN_RENDEZVOUS_SERVICE_BURST_GATE_H_

#include <cstddef>
#include <mutex>
#include <shared_mutex>

namespace ddprun {

class BurstGate {
 public:
  // Closes the gate for as long as it lives, if `writes` are so many that it pays. One thread, one
  // at a time.
  class Burst {
   public:
    Burst(BurstGate* gate, std::size_t writes) : gate_(writes < kFewest ? nullptr : gate) {
      if (gate_ != nullptr) gate_->Close();
    }
    ~Burst() {
      if (gate_ != nullptr) gate_->Open();
    }
    Burst(const Burst&) = delete;
    Burst& operator=(const Burst&) = delete;

   private:
    static constexpr std::size_t kFewest = 16;

    BurstGate* const gate_;  // outlives the burst; nullptr: not closed
  };

  // Returns when the gate is open; at once on the thread that has closed it.
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

#endif  // DDPRUN_RENDEZVOUS_SERVICE_BURST_GATE_H_
