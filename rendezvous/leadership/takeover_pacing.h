// TakeoverPacing: how long a standby waits before it takes a term from a leader that may be alive.
//
// Two rendezvous that reach etcd but not each other take each other for lost. Each would take the
// term from the other, for ever. The loser knows: it was alive when it lost. So a process counts
// how often in a row it was ousted (lost the term while alive), and waits longer each time. The
// leader of a host that is truly lost comes back as a new process, that was never ousted. Pure:
// time comes in as an argument.
#ifndef DDPRUN_RENDEZVOUS_LEADERSHIP_TAKEOVER_PACING_H_
#define DDPRUN_RENDEZVOUS_LEADERSHIP_TAKEOVER_PACING_H_

#include <algorithm>
#include <chrono>

#include "rendezvous/core/types.h"

namespace ddprun {

class TakeoverPacing {
 public:
  // A process that was ousted fewer times in a row takes over at once. Else it waits kFirstWait,
  // and twice as long each further time.
  static constexpr int kFree = 2;
  static constexpr Duration kFirstWait = std::chrono::seconds(1);
  static constexpr Duration kMaxWait = std::chrono::seconds(30);
  // Who stood by or led for so long begins to count anew.
  static constexpr Duration kCalm = std::chrono::minutes(1);

  explicit TakeoverPacing(int ousted) : ousted_(std::max(ousted, 0)) {}

  // The process has begun to stand by, or to lead.
  void OnRoleBegan(TimePoint now) {
    if (began_ != TimePoint() && IsCalm(now)) ousted_ = 0;
    began_ = now;
  }
  // From when the present leader was first seen.
  Duration Wait(TimePoint now) const {
    if (ousted_ < kFree || IsCalm(now)) return Duration{};
    return std::min(kMaxWait, kFirstWait * (1 << std::min(ousted_ - kFree, 10)));
  }
  // So often in a row, with this time, where the process is ousted now.
  int OustedAgain(TimePoint now) const { return IsCalm(now) ? 1 : ousted_ + 1; }

 private:
  bool IsCalm(TimePoint now) const { return now - began_ >= kCalm; }

  int ousted_;
  TimePoint began_{};
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_LEADERSHIP_TAKEOVER_PACING_H_
