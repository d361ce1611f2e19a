// The Operator service of proto/ddprun/v1/operator.proto.
//
// gRPC's callbacks ask the RoundLoop and read the EventLog; the JSON of a status is made on a
// thread of gRPC, because for 16,384 nodes it takes longer than the loop may.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_OPERATOR_SERVICE_H_
#define DDPRUN_RENDEZVOUS_SERVICE_OPERATOR_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ddprun/v1/operator.grpc.pb.h"
#include "rendezvous/json/status_json.h"
#include "rendezvous/service/event_log.h"
#include "rendezvous/service/round_loop.h"

namespace ddprun {

class OperatorService final : public v1::Operator::CallbackService {
 public:
  struct Options {
    std::shared_ptr<RoundLoop> loop;
    std::shared_ptr<EventLog> events;
    // Of the rendezvous itself; any thread.
    std::function<DaemonStatus()> daemon;
    // Who makes this call, or why it is refused: the one place where operators are let in. An empty
    // name is somebody who may see all jobs.
    std::function<absl::StatusOr<std::string>(const grpc::CallbackServerContext& context,
                                              std::string_view method)>
        authorize;
  };

  explicit OperatorService(Options options) : options_(std::move(options)) {}

  grpc::ServerWriteReactor<v1::StatusPiece>* Status(grpc::CallbackServerContext* context,
                                                    const v1::StatusRequest* request) override;
  grpc::ServerUnaryReactor* StopJob(grpc::CallbackServerContext* context,
                                    const v1::StopRequest* request,
                                    v1::OperatorAnswer* answer) override;
  grpc::ServerUnaryReactor* DrainNode(grpc::CallbackServerContext* context,
                                      const v1::DrainRequest* request,
                                      v1::OperatorAnswer* answer) override;
  grpc::ServerWriteReactor<v1::EventLine>* Events(grpc::CallbackServerContext* context,
                                                  const v1::EventsRequest* request) override;

 private:
  const Options options_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_OPERATOR_SERVICE_H_
