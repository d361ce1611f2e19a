// TakeoverPacing: how long a standby rendezvous waits before it takes over from a leader that may
// be alive.
//
// If two rendezvous reach etcd but not each other, each considers the other lost. They would take
// the lead from each other for ever. But the loser knows that it was alive. So a process counts how
// often in a row it was ousted (lost the lead while alive), and waits longer each time. A leader
// that was truly lost comes back as a new process, which was never ousted. Pure: the time is an
// argument.
#ifndef DDPRUN_RENDEZVOUS_LEADERSHIP_TAKEOVER_PACING_H_
#define DDPRUN_RENDEZVOUS_LEADERSHIP_TAKEOVER_PACING_H_

#include <algorithm>
#include <chrono>

#include "rendezvous/core/types.h"

namespace ddprun {

class TakeoverPacing {
 public:
  // A process that was ousted fewer than kFree times in a row takes over at once. Else it waits
  // kFirstWait, and twice as long each further time.
  static constexpr int kFree = 2;
  static constexpr Duration kFirstWait = std::chrono::seconds(1);
  static constexpr Duration kMaxWait = std::chrono::seconds(30);
  // After standing by or leading for this long, the count begins again.
  static constexpr Duration kCalm = std::chrono::minutes(1);

  explicit TakeoverPacing(int ousted) : ousted_(std::max(ousted, 0)) {}

  // The process has begun to stand by, or to lead.
  void OnRoleBegan(TimePoint now) {
    if (began_ != TimePoint() && IsCalm(now)) ousted_ = 0;
    began_ = now;
  }
  // How long to wait, counted from when the present leader was first seen.
  Duration Wait(TimePoint now) const {
    if (ousted_ < kFree || IsCalm(now)) return Duration{};
    return std::min(kMaxWait, kFirstWait * (1 << std::min(ousted_ - kFree, 10)));
  }
  // The new count if the process is ousted now.
  int OustedAgain(TimePoint now) const { return IsCalm(now) ? 1 : ousted_ + 1; }

 private:
  bool IsCalm(TimePoint now) const { return now - began_ >= kCalm; }

  int ousted_;
  TimePoint began_{};
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_LEADERSHIP_TAKEOVER_PACING_H_
