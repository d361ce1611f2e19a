// Validity: the time until which the leader of several rendezvous may acknowledge, assign and
// answer.
//
// Thread-safe, lock-free. LeadershipLoop sets it; JobLoop asks before each message to an agent. The
// clock is CLOCK_BOOTTIME, which also counts the time in which the machine is suspended.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_VALIDITY_H_
#define DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_VALIDITY_H_

#include <time.h>

#include <atomic>
#include <cstdint>

#include "rendezvous/core/types.h"

namespace ddprun {

inline TimePoint BootTime() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return TimePoint(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

class Validity {
 public:
  void SetUntil(TimePoint boot_time) { until_ = boot_time.time_since_epoch().count(); }
  bool Holds() const { return BootTime().time_since_epoch().count() < until_; }
  TimePoint until() const { return TimePoint(Duration(until_.load())); }

 private:
  std::atomic<Duration::rep> until_{0};
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_LEADERSHIP_VALIDITY_H_
