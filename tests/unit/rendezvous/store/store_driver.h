// Helpers of tests of a Store: the entries that it must have, and waits for its reports. No clock.
#ifndef DDPRUN_TESTS_UNIT_STORE_STORE_DRIVER_H_
#define DDPRUN_TESTS_UNIT_STORE_STORE_DRIVER_H_

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/store/store.h"

namespace ddprun {

using Entries = std::map<std::string, std::string>;

inline void Apply(const Store::Batch& batch, Entries* entries) {
  for (const Store::Write& write : batch) {
    if (write.value) {
      (*entries)[write.key] = *write.value;
    } else {
      entries->erase(write.key);
    }
  }
}

// Collects the reports of a store, from any thread. Must outlive the store.
class Listener {
 public:
  Store::Done Done() {
    return [this](Store::Outcome outcome) {
      const std::lock_guard lock(mutex_);
      outcomes_.push_back(outcome);
      if (outcome == Store::Outcome::kKept) ++done_;
      changed_.notify_all();
    };
  }
  std::function<void(std::string_view)> Log() {
    return [this](std::string_view text) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(text);
      changed_.notify_all();
    };
  }
  void Stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  // Waits for this outcome, or for Stop.
  void WaitForOutcome(Store::Outcome outcome) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return stopped_ || std::find(outcomes_.begin(), outcomes_.end(), outcome) != outcomes_.end();
    });
  }
  // Waits until `count` commits were kept, or for Stop.
  void WaitForDone(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || done_ >= count; });
  }
  void WaitForLines(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return lines_.size() >= count; });
  }
  std::vector<Store::Outcome> outcomes() const {
    const std::lock_guard lock(mutex_);
    return outcomes_;
  }
  int done() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::vector<Store::Outcome> outcomes_;
  int done_ = 0;  // number of kept commits
  bool stopped_ = false;
  std::vector<std::string> lines_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_UNIT_STORE_STORE_DRIVER_H_
