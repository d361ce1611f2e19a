// The nonces of a server. Each is good for one call, for a short time, on the connection that asked
// for it.
//
// An unused nonce takes no memory: it contains its time and a MAC (a keyed hash), made with a key
// that only this object knows. A nonce that came back with a valid proof is stored for kLifetime
// from then on. So a caller who does not know the secret cannot fill the memory.
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

  // At most `max_used` nonces can be used within kLifetime.
  explicit Challenges(std::size_t max_used = std::size_t{1} << 18);

  // A nonce for a caller. `binding`: the values that must be the same when the nonce comes back.
  std::string Issue(std::string_view binding, TimePoint now) const;

  // Whether Issue made `nonce` for `binding` less than kLifetime ago. Does not use it up. Error:
  // Unauthenticated, with a text for people.
  absl::Status Check(std::string_view nonce, std::string_view binding, TimePoint now) const;

  // Uses up a nonce that Check accepts. Errors: Unauthenticated if it was used before,
  // ResourceExhausted if too many were used.
  absl::Status Use(std::string_view nonce, TimePoint now);

 private:
  std::string Mac(std::string_view head, std::string_view binding) const;

  const std::string key_;
  const std::size_t max_used_;

  std::mutex mutex_;
  std::unordered_set<std::string> used_;  // guarded by mutex_
  // The elements of used_, and when to erase each; guarded by mutex_.
  std::deque<std::pair<TimePoint, std::string>> forget_;
};

}  // namespace ddprun::auth

#endif  // DDPRUN_RENDEZVOUS_AUTH_CHALLENGES_H_
