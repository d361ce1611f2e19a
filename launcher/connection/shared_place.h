// The place at which the agent heard the rendezvous, for its guardian. It is a number in memory
// that a process shares with its forked children, so the guardian still knows it after the agent
// was killed.
//
// One process sets it, and any process can read it. If there is no memory for it, it stays 0.
#ifndef DDPRUN_LAUNCHER_CONNECTION_SHARED_PLACE_H_
#define DDPRUN_LAUNCHER_CONNECTION_SHARED_PLACE_H_

#include <sys/mman.h>

#include <atomic>
#include <new>

namespace ddprun {

class SharedPlace {
 public:
  SharedPlace() {
    void* const memory = ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) place_ = new (memory) std::atomic<int>(0);
  }
  ~SharedPlace() {
    if (place_ != nullptr) ::munmap(place_, sizeof(*place_));
  }
  SharedPlace(const SharedPlace&) = delete;
  SharedPlace& operator=(const SharedPlace&) = delete;

  void Set(int place) {
    if (place_ != nullptr) place_->store(place, std::memory_order_relaxed);
  }
  int Get() const { return place_ == nullptr ? 0 : place_->load(std::memory_order_relaxed); }

 private:
  static_assert(std::atomic<int>::is_always_lock_free);
  std::atomic<int>* place_ = nullptr;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_SHARED_PLACE_H_
