// Counts what a rendezvous refused since its start, by reason.
//
// Thread-safe. Bounded by the number of reasons (rendezvous/core/measures/refusal_reasons.h).
#ifndef DDPRUN_RENDEZVOUS_AUTH_REFUSAL_COUNTERS_H_
#define DDPRUN_RENDEZVOUS_AUTH_REFUSAL_COUNTERS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "rendezvous/core/measures/refusal_reasons.h"

namespace ddprun {

class RefusalCounters {
 public:
  using Log = std::function<void(const std::string& text)>;
  using Clock = std::chrono::steady_clock;

  // `log` gets a line for the refusals 1, 2, 4, 8 and so on of each reason. Between them it gets
  // at most one line per minute. `log` may be empty; it must not call this object.
  explicit RefusalCounters(Log log = {});

  // `detail`: who and why, for the log.
  void Count(std::string_view reason, std::string_view detail, Clock::time_point now);
  void Count(std::string_view reason, std::string_view detail) {
    Count(reason, detail, Clock::now());
  }

  std::map<std::string, std::uint64_t> Snapshot() const;

 private:
  struct Entry {
    std::uint64_t count = 0;
    Clock::time_point logged;
  };

  const Log log_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;  // guarded by mutex_
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_AUTH_REFUSAL_COUNTERS_H_
