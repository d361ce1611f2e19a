// ConnectDeadline: limits the time in which a session connects. Internal to this folder.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_CONNECT_DEADLINE_H_
#define DDPRUN_RENDEZVOUS_CLIENT_CONNECT_DEADLINE_H_

#include <grpcpp/alarm.h>

#include <functional>
#include <optional>
#include <string>

#include "rendezvous/core/types.h"

namespace ddprun {

// Owned by its session, which destroys it after `done` has returned. Cancel: any thread.
class ConnectDeadline {
 public:
  // `reason`: a sentence that says what did not happen in time; nullopt: cancelled before the
  // limit.
  using Done = std::function<void(std::optional<std::string> reason)>;

  ConnectDeadline(std::string endpoint, Duration limit);

  // `done` is called once, on a thread of gRPC.
  void Start(Done done);
  // Call it when the session is connected or over. Does not block; `done` is called with nullopt.
  void Cancel() { alarm_.Cancel(); }

 private:
  void OnAlarm(bool expired);

  const std::string endpoint_;
  const Duration limit_;
  Done done_;  // from Start
  grpc::Alarm alarm_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_CONNECT_DEADLINE_H_
