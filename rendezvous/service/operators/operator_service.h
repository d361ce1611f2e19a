// OperatorService: the Operator service of proto/ddprun/v1/operator.proto.
//
// Its calls ask the JobLoop and read the EventLog. They run on threads of a TaskQueue, because
// authentication may block, and because making the JSON for 16,384 nodes would delay other calls
// for too long.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_OPERATOR_SERVICE_H_
#define DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_OPERATOR_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ddprun/v1/operator.grpc.pb.h"
#include "rendezvous/json/status_json.h"
#include "rendezvous/service/call_queues.h"
#include "rendezvous/service/job/event_log.h"
#include "rendezvous/service/job/job_loop.h"
#include "rendezvous/service/operators/events_call.h"
#include "rendezvous/service/operators/logs_call.h"
#include "rendezvous/service/operators/page_link.h"
#include "rendezvous/service/server_call.h"
#include "rendezvous/service/slow_calls.h"
#include "worker/contract/task_queue.h"

namespace ddprun {

class OperatorService {
 public:
  struct Options {
    std::shared_ptr<JobLoop> loop;
    std::shared_ptr<EventLog> events;
    // Status of the rendezvous itself; any thread.
    std::function<DaemonStatus()> daemon;
    // Returns the caller's principal, or why the call is refused. This is the only place where
    // operators are authenticated. An empty principal is allowed to see all jobs. May block.
    std::function<absl::StatusOr<std::string>(const grpc::ServerContextBase& context,
                                              std::string_view method)>
        authorize;
    // Counts a call that is refused although its caller is authorized. Any thread.
    std::function<void(const grpc::ServerContextBase& context, const char* counter,
                       const absl::Status& why)>
        refused;
    // Makes a link that signs in `owner`; empty: there is no page. Any thread.
    std::function<PageLink(const std::string& owner)> open_page{};
  };

  explicit OperatorService(Options options) : options_(std::move(options)) {}

  // For registration with the server.
  grpc::Service* service() { return &service_; }

  // Takes calls until the server shuts down. Call it once the server runs. This object, `queues`,
  // `tasks` and `slow` must live until queues and tasks are shut down.
  void Serve(CallQueues* queues, TaskQueue* tasks, SlowCalls* slow);

 private:
  using StatusCall = WriterCall<v1::StatusRequest, v1::StatusPiece>;
  using StopCall = UnaryCall<v1::StopRequest, v1::OperatorAnswer>;
  using DrainCall = UnaryCall<v1::DrainRequest, v1::OperatorAnswer>;
  using OpenPageCall = UnaryCall<v1::OpenPageRequest, v1::OpenPageAnswer>;
  using StacksCall = UnaryCall<v1::StacksRequest, v1::StacksAnswer>;

  // Returns an error, and counts a refused call, unless the field has `least` to `most` bytes.
  absl::Status CheckLength(const grpc::ServerContextBase& context, const char* field,
                           const std::string& text, std::size_t least, std::size_t most) const;
  void Status(std::unique_ptr<StatusCall> call);
  void Events(std::unique_ptr<EventsCall> call);
  void StopJob(std::unique_ptr<StopCall> call);
  void DrainNode(std::unique_ptr<DrainCall> call);
  void Stacks(std::unique_ptr<StacksCall> call);
  void Logs(std::unique_ptr<LogsCall> call);
  void OpenPage(std::unique_ptr<OpenPageCall> call);

  const Options options_;
  v1::Operator::AsyncService service_;
  TaskQueue* tasks_ = nullptr;  // set by Serve
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_OPERATOR_SERVICE_H_
