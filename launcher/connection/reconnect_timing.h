// ReconnectTiming: when to try to connect again, and how long one attempt may take. Pure.
#ifndef DDPRUN_LAUNCHER_CONNECTION_RECONNECT_TIMING_H_
#define DDPRUN_LAUNCHER_CONNECTION_RECONNECT_TIMING_H_

#include <chrono>
#include <cstdint>
#include <random>

#include "rendezvous/core/types.h"

namespace ddprun {

class ReconnectTiming {
 public:
  struct Options {
    // From a loss or a failure to the next attempt: between half of the backoff and the whole,
    // which doubles from the first to the longest and starts anew with a session that says
    // something.
    Duration first_backoff = std::chrono::milliseconds(50);
    Duration longest_backoff = std::chrono::seconds(1);
    // How long one attempt may take. The longest at first, when thousands connect at once. After a
    // session the shortest, so that a rendezvous that comes back is noticed within the lease; it
    // doubles while there is no answer, which a rendezvous that is overrun may owe.
    Duration shortest_attempt = std::chrono::seconds(1);
    Duration longest_attempt = std::chrono::seconds(10);
    std::uint64_t seed = 0;  // of the jitter: a different one for each agent
  };

  explicit ReconnectTiming(const Options& options)
      : options_(options), attempt_limit_(options.longest_attempt), random_(options.seed) {}

  Duration attempt_limit() const { return attempt_limit_; }

  // The rendezvous has said something.
  void OnHeard();
  // An attempt failed, or a session was lost. Returns how long to wait until the next attempt.
  Duration OnLost(bool refused);

 private:
  const Options options_;
  Duration backoff_{};  // the next one, before jitter; zero: the first
  Duration attempt_limit_;
  std::mt19937_64 random_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_RECONNECT_TIMING_H_
