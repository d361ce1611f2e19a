// PeerWatch: a standby's knowledge of the leader's process, from the link to it. Pure.
#ifndef DDPRUN_RENDEZVOUS_LEADERSHIP_PEER_WATCH_H_
#define DDPRUN_RENDEZVOUS_LEADERSHIP_PEER_WATCH_H_

#include <string>
#include <utility>

#include "rendezvous/core/types.h"

namespace ddprun {

class PeerWatch {
 public:
  enum Gone { kNot, kRefused, kResigns };

  explicit PeerWatch(Duration silence) : silence_(silence) {}

  // Watches this process; its silence counts from now on. "": watches nobody.
  void Watch(std::string endpoint, TimePoint now) {
    endpoint_ = std::move(endpoint);
    heard_at_ = now;
    gone_ = kNot;
  }
  void OnHeard(const std::string& endpoint, TimePoint now) {
    if (endpoint.empty() || endpoint != endpoint_) return;
    heard_at_ = now;
    gone_ = kNot;
  }
  void OnGone(const std::string& endpoint, Gone how) {
    if (!endpoint.empty() && endpoint == endpoint_) gone_ = how;
  }
  // This process did not run for a while, so it may have missed messages: silence counts from now
  // on.
  void OnPaused(TimePoint now) { heard_at_ = now; }

  const std::string& endpoint() const { return endpoint_; }
  Gone gone() const { return gone_; }
  TimePoint SilentAt() const { return heard_at_ + silence_; }
  bool IsSilent(TimePoint now) const { return !endpoint_.empty() && now >= SilentAt(); }

 private:
  const Duration silence_;
  std::string endpoint_;
  TimePoint heard_at_{};
  Gone gone_ = kNot;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_LEADERSHIP_PEER_WATCH_H_
