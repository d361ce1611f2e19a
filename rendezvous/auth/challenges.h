// The nonces that a server gives out: each good for one call, for a short time, on the connection
// that asked for it.
//
// They cost nothing until they are used: a nonce carries its time and a MAC under a key that only
// this object knows, and only those that came back with a valid proof are remembered, until they
// would have expired. So whoever does not know the secret can fill nothing.
//
// Thread-safe. Time comes in as an argument.
#ifndef DDPRUN_RENDEZVOUS_AUTH_CHALLENGES_H_
#define DDPRUN_RENDEZVOUS_AUTH_CHALLENGES_H_

#include <chrono>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"

namespace ddprun::auth {

class Challenges {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kLifetime{10};

  // At most `max_used` can be used within kLifetime.
  explicit Challenges(std::size_t max_used = std::size_t{1} << 18);

  // A nonce for who asked: `binding` holds what must be the same when it comes back.
  std::string Issue(std::string_view binding, TimePoint now) const;

  // Whether Issue gave `nonce` for `binding`, less than kLifetime ago. Does not use it up. Error:
  // Unauthenticated, for people.
  absl::Status Check(std::string_view nonce, std::string_view binding, TimePoint now) const;

  // Uses up a nonce that Check accepts. Errors: Unauthenticated when it was used before,
  // ResourceExhausted when too many are.
  absl::Status Use(std::string_view nonce, TimePoint now);

 private:
  std::string Mac(std::string_view head, std::string_view binding) const;

  const std::string key_;
  const std::size_t max_used_;

  std::mutex mutex_;
  std::unordered_set<std::string> used_;                  // guarded by mutex_
  std::deque<std::pair<TimePoint, std::string>> forget_;  // of used_, when; guarded by mutex_
};

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_CHALLENGES_H_
