// LogsCall: one Logs call of proto/ddprun/v1/operator.proto. It writes the pieces of a LogRequest
// one after the other, and acknowledges each once gRPC has taken it. So gRPC's own flow control
// slows the reading down to the reader's speed.
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

// Parses a request. InvalidArgument names the field that is out of bounds.
absl::StatusOr<LogRequest> ToLogRequest(const v1::LogsRequest& request);

// Owns itself from Begin or Refuse until gRPC has finished with it. The JobLoop shares the
// ownership until its last call.
class LogsCall final : public WriterCall<v1::LogsRequest, v1::LogsPiece>, public LogReader {
 public:
  explicit LogsCall(CallQueues& queues);

  // Serves the request of `owner`. From any thread. `refused` is called if there are too many
  // readers.
  using Refused = std::function<void(const grpc::ServerContextBase& context, const char* counter,
                                     const absl::Status& why)>;
  static void Begin(std::unique_ptr<LogsCall> call, std::shared_ptr<JobLoop> loop,
                    std::string owner, LogRequest request, Refused refused);
  static void Refuse(std::unique_ptr<LogsCall> call, const absl::Status& why);

  // LogReader. Called from within the loop.
  void OnText(const LogSource& source, std::string text) override;
  void OnAbout(const LogSource& source, std::string about) override;
  void OnSourceEnd(const LogSource& source, std::string note) override;
  void OnEnd(absl::Status why) override;

 private:
  void OnMetadataSent(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  void OnDone(bool ok);

  void Queue(v1::LogsPiece piece);
  // Writes the next piece if no write is pending, or ends the call after the last piece. With
  // mutex_ held.
  void Continue();
  void End(const absl::Status& status);
  // Call it when an operation is done. The last operation releases the call.
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
  std::shared_ptr<LogsCall> self_;   // until no operation is pending
  int pending_ = 1;                  // pending operations; done_ completes however the call ends
  std::deque<v1::LogsPiece> queue_;  // bounded by the request's windows
  bool writing_ = false;             // the first piece of queue_ is being written
  bool cancelled_ = false;
  bool ended_ = false;
  std::optional<absl::Status> why_;  // from OnEnd
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_LOGS_CALL_H_
