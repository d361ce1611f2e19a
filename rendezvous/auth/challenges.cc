#include "rendezvous/auth/challenges.h"

#include <cstdint>
#include <cstring>

#include "rendezvous/auth/crypto.h"

namespace ddprun::auth {
namespace {

// A nonce is: nanoseconds of the steady clock, random bytes, the MAC of both and the binding.
constexpr std::size_t kTimeBytes = 8;
constexpr std::size_t kRandomBytes = 16;
constexpr std::size_t kHeadBytes = kTimeBytes + kRandomBytes;
constexpr std::size_t kMacBytes = 32;

std::int64_t Nanoseconds(Challenges::TimePoint time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

Challenges::Challenges(std::size_t max_used) : key_(RandomBytes(32)), max_used_(max_used) {}

std::string Challenges::Issue(std::string_view binding, TimePoint now) const {
  const std::int64_t time = Nanoseconds(now);
  std::string nonce(reinterpret_cast<const char*>(&time), kTimeBytes);
  nonce += RandomBytes(kRandomBytes);
  return nonce + Mac(nonce, binding);
}

absl::Status Challenges::Check(std::string_view nonce, std::string_view binding,
                               TimePoint now) const {
  const absl::Status unknown = absl::UnauthenticatedError(
      "this challenge was not given by this rendezvous to this connection; ask for a new one");
  if (nonce.size() != kHeadBytes + kMacBytes) return unknown;
  const std::string_view head = nonce.substr(0, kHeadBytes);
  if (!EqualInConstantTime(nonce.substr(kHeadBytes), Mac(head, binding))) return unknown;
  std::int64_t time = 0;
  std::memcpy(&time, head.data(), kTimeBytes);
  if (Nanoseconds(now) - time >= std::chrono::nanoseconds(kLifetime).count()) {
    return absl::UnauthenticatedError("this challenge has expired; ask for a new one");
  }
  return absl::OkStatus();
}

absl::Status Challenges::Use(std::string_view nonce, TimePoint now) {
  const std::lock_guard lock(mutex_);
  while (!forget_.empty() && forget_.front().first <= now) {
    used_.erase(forget_.front().second);
    forget_.pop_front();
  }
  if (used_.size() >= max_used_) {
    return absl::ResourceExhaustedError("too many calls within 10 s; try again later");
  }
  if (!used_.emplace(nonce).second) {
    return absl::UnauthenticatedError("this challenge was used before; ask for a new one");
  }
  forget_.emplace_back(now + kLifetime, nonce);
  return absl::OkStatus();
}

std::string Challenges::Mac(std::string_view head, std::string_view binding) const {
  std::string data(head);  // has a fixed length, so the border between the two is unambiguous
  data.append(binding);
  return HmacSha256(key_, data);
}

}  // namespace ddprun::auth
