// LogsCall: one Logs call of proto/ddprun/v1/operator.proto, which writes the pieces of a
// LogRequest as they come, one after the other, and acknowledges each once gRPC has taken it: so
// gRPC's own flow control is what a slow reader slows down.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_LOGS_CALL_H_
#define DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_LOGS_CALL_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ddprun/v1/operator.grpc.pb.h"
#include "rendezvous/service/job/job_loop.h"
#include "rendezvous/service/job/log_request.h"
#include "rendezvous/service/server_call.h"

namespace ddprun {

// What was asked for; InvalidArgument names the field that is out of bounds.
absl::StatusOr<LogRequest> ToLogRequest(const v1::LogsRequest& request);

// Owned by itself from Begin or Refuse on, until gRPC is done with it, and by the JobLoop until it
// has called it for the last time.
class LogsCall final : public WriterCall<v1::LogsRequest, v1::LogsPiece>, public LogReader {
 public:
  explicit LogsCall(CallQueues& queues);

  // Serves the request of `owner`. From any thread. `refused` hears where there are too many.
  using Refused = std::function<void(const grpc::ServerContextBase& context, const char* counter,
                                     const absl::Status& why)>;
  static void Begin(std::unique_ptr<LogsCall> call, std::shared_ptr<JobLoop> loop,
                    std::string owner, LogRequest request, Refused refused);
  static void Refuse(std::unique_ptr<LogsCall> call, const absl::Status& why);

  // LogReader, from within the loop.
  void OnText(const LogSource& source, std::string text) override;
  void OnSourceEnd(const LogSource& source, std::string note) override;
  void OnEnd(absl::Status why) override;

 private:
  void OnMetadataSent(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  void OnDone(bool ok);

  void Queue(v1::LogsPiece piece);
  // Writes the next piece, if there is one and nothing is being written, or ends the call after the
  // last one. With mutex_ held.
  void Continue();
  void End(const absl::Status& status);
  // An operation is done: the last one lets go of the call.
  void Leave(std::unique_lock<std::mutex> lock);

  Operation<LogsCall> metadata_{this, &LogsCall::OnMetadataSent};
  Operation<LogsCall> write_{this, &LogsCall::OnWritten};
  Operation<LogsCall> finish_{this, &LogsCall::OnFinished};
  Operation<LogsCall> done_{this, &LogsCall::OnDone};

  // Set by Begin.
  std::shared_ptr<JobLoop> loop_;
  LogReadId id_;
  Refused refused_;

  std::mutex mutex_;
  // Guarded by mutex_.
  std::shared_ptr<LogsCall> self_;   // until no operation is left
  int pending_ = 1;                  // operations; of done_, gRPC tells however the call ends
  std::deque<v1::LogsPiece> queue_;  // bounded by the request's windows
  bool writing_ = false;             // the front one
  bool cancelled_ = false;
  bool ended_ = false;
  std::optional<absl::Status> why_;  // OnEnd's
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_LOGS_CALL_H_
