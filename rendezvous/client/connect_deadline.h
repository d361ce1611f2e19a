// ConnectDeadline: how long a session may take to connect, and why it did not. Internal to this
// folder.
//
// A session that waits for its connection is never told why there is none. So when the time is
// over, a probe goes over the same channel: a call that does not wait, and fails with the reason.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_CONNECT_DEADLINE_H_
#define DDPRUN_RENDEZVOUS_CLIENT_CONNECT_DEADLINE_H_

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// Owned by its session, which destroys it after the end of `done`. Cancel: any thread.
class ConnectDeadline {
 public:
  struct Options {
    std::string endpoint;
    Duration limit;
    bool waits;  // the session waits for its connection: else it hears the reason itself
  };
  // A sentence that says why there is no connection; nullopt: it was cancelled before.
  using Done = std::function<void(std::optional<std::string> reason)>;

  // `stub` must outlive this object.
  ConnectDeadline(v1::Rendezvous::Stub* stub, Options options);
  ~ConnectDeadline();

  // `done` is called once, on a thread of gRPC.
  void Start(Done done);
  // The session is connected, or over: there is nothing to say any more. At once.
  void Cancel();

 private:
  class Probe;

  void OnAlarm(bool expired);
  void OnProbed(const grpc::Status& status);

  v1::Rendezvous::Stub* const stub_;
  const Options options_;
  Done done_;  // from Start
  grpc::Alarm alarm_;

  std::mutex mutex_;
  std::unique_ptr<Probe> probe_;  // guarded by mutex_, like what follows
  bool cancelled_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_CONNECT_DEADLINE_H_
