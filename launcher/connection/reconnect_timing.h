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
    // The pause from a loss or a failure to the next attempt is random, between half of the backoff
    // and the whole. The backoff doubles from the first to the longest, and starts again after a
    // session with a message.
    Duration first_backoff = std::chrono::milliseconds(50);
    Duration longest_backoff = std::chrono::seconds(1);
    // The time limit of one attempt. At first it is the longest, because thousands may connect at
    // once. A message sets it to the shortest, so that a restarted rendezvous is noticed within the
    // lease. Each lost session and each attempt that is not refused doubles it, because the
    // rendezvous may be overloaded.
    Duration shortest_attempt = std::chrono::seconds(1);
    Duration longest_attempt = std::chrono::seconds(10);
    std::uint64_t seed = 0;  // of the jitter: a different one for each agent
  };

  explicit ReconnectTiming(const Options& options)
      : options_(options), attempt_limit_(options.longest_attempt), random_(options.seed) {}

  Duration attempt_limit() const { return attempt_limit_; }

  // The rendezvous has sent a message.
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
