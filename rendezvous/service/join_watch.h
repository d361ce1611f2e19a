// Ends the sessions whose agents do not join in time. All have equally long, so one timer serves
// them in the order in which they came.
//
// Thread-safe. Owned by whoever made it and by its timer.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_JOIN_WATCH_H_
#define DDPRUN_RENDEZVOUS_SERVICE_JOIN_WATCH_H_

#include <grpcpp/alarm.h>

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>

#include "rendezvous/service/session.h"

namespace ddprun {

class JoinWatch : public std::enable_shared_from_this<JoinWatch> {
 public:
  explicit JoinWatch(std::chrono::milliseconds time_to_join) : time_to_join_(time_to_join) {}

  // Calls OnTimeToJoinOver when the time is over, unless the session is gone by then.
  void Add(const std::shared_ptr<Session>& session);

  // Calls nobody any more after it, but for who is being called.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    Clock::time_point deadline;
    std::weak_ptr<Session> session;
  };

  void Arm(Clock::time_point now);  // with mutex_ held, and entries
  void OnAlarm();

  const std::chrono::milliseconds time_to_join_;

  std::mutex mutex_;
  std::deque<Entry> entries_;           // guarded by mutex_
  std::unique_ptr<grpc::Alarm> alarm_;  // armed while there are entries; guarded by mutex_
  bool stopped_ = false;                // guarded by mutex_
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_JOIN_WATCH_H_
