// The Operator service of proto/ddprun/v1/operator.proto.
//
// Its calls ask the JobLoop and read the EventLog, on threads of a TaskQueue: who asks may have
// to be looked up, and the JSON of a status with 16,384 nodes takes longer than others may wait.
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
    // Of the rendezvous itself; any thread.
    std::function<DaemonStatus()> daemon;
    // Who makes this call, or why it is refused: the one place where operators are let in. An empty
    // name is somebody who may see all jobs. May wait.
    std::function<absl::StatusOr<std::string>(const grpc::ServerContextBase& context,
                                              std::string_view method)>
        authorize;
    // Of a call that is refused for what it asks: counts that. Any thread.
    std::function<void(const grpc::ServerContextBase& context, const char* counter,
                       const absl::Status& why)>
        refused;
    // A link that signs in `owner`; empty where there is no page. Any thread.
    std::function<PageLink(const std::string& owner)> open_page{};
  };

  explicit OperatorService(Options options) : options_(std::move(options)) {}

  // To be registered with the server.
  grpc::Service* service() { return &service_; }

  // Takes calls until the server shuts down. Once it runs; `queues`, `tasks` and `slow` must live
  // until queues and tasks are shut down, and so must this.
  void Serve(CallQueues* queues, TaskQueue* tasks, SlowCalls* slow);

 private:
  using StatusCall = WriterCall<v1::StatusRequest, v1::StatusPiece>;
  using StopCall = UnaryCall<v1::StopRequest, v1::OperatorAnswer>;
  using DrainCall = UnaryCall<v1::DrainRequest, v1::OperatorAnswer>;
  using OpenPageCall = UnaryCall<v1::OpenPageRequest, v1::OpenPageAnswer>;
  using StacksCall = UnaryCall<v1::StacksRequest, v1::StacksAnswer>;

  // Counts it unless the field has so many bytes, which its error says.
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
  TaskQueue* tasks_ = nullptr;  // since Serve
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_OPERATORS_OPERATOR_SERVICE_H_
