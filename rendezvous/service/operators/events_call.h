// EventsCall: one Events call of proto/ddprun/v1/operator.proto, which sends lines of the EventLog.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_EVENTS_CALL_H_
#define DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_EVENTS_CALL_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "ddprun/v1/operator.grpc.pb.h"
#include "rendezvous/service/job/event_log.h"
#include "rendezvous/service/server_call.h"

namespace ddprun {

// Owns itself from Begin or Refuse until gRPC has finished with it.
class EventsCall final : public WriterCall<v1::EventsRequest, v1::EventLine> {
 public:
  explicit EventsCall(CallQueues& queues);

  // Sends the requested lines that `owner` may see. From any thread. `refused` is called if there
  // are too many followers.
  using Refused = std::function<void(const grpc::ServerContextBase& context, const char* counter,
                                     const absl::Status& why)>;
  static void Begin(std::unique_ptr<EventsCall> call, std::shared_ptr<EventLog> log,
                    std::string owner, const Refused& refused);
  static void Refuse(std::unique_ptr<EventsCall> call, const absl::Status& why);

 private:
  void OnMetadataSent(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  void OnDone(bool ok);

  // Writes the next line, if there is one and nothing is being written. With mutex_ held.
  void Continue();
  // With mutex_ held.
  void End(const absl::Status& status);
  // Call it when an operation is done. The last operation deletes the call.
  void Leave(std::unique_lock<std::mutex> lock);

  Operation<EventsCall> metadata_{this, &EventsCall::OnMetadataSent};
  Operation<EventsCall> write_{this, &EventsCall::OnWritten};
  Operation<EventsCall> finish_{this, &EventsCall::OnFinished};
  Operation<EventsCall> done_{this, &EventsCall::OnDone};

  std::shared_ptr<EventLog> log_;
  EventLog::Filter filter_;
  std::uint64_t follower_ = 0;  // 0: not following

  std::mutex mutex_;
  // Guarded by mutex_.
  int pending_ = 1;  // pending operations; done_ completes however the call ends
  std::uint64_t place_ = 0;
  bool ready_ = false;
  bool writing_ = false;
  bool cancelled_ = false;
  bool ended_ = false;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_EVENTS_CALL_H_
