// Takes the Session calls from a gRPC server, which serves them asynchronously; the other calls of
// its service stay with the callback interface.
#ifndef DDPRUN_RENDEZVOUS_SERVICE_SESSION_ACCEPTOR_H_
#define DDPRUN_RENDEZVOUS_SERVICE_SESSION_ACCEPTOR_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/service/call_queues.h"

namespace ddprun {

using RendezvousService =
    v1::Rendezvous::WithAsyncMethod_Session<v1::Rendezvous::WithCallbackMethod_Handshake<
        v1::Rendezvous::WithCallbackMethod_ReportGone<v1::Rendezvous::Service>>>;

// A Session call as gRPC's asynchronous interface has it.
struct SessionCall {
  explicit SessionCall(CallQueues& queues) : place(queues.Enter()) {}

  const CallQueues::Place place;  // given back last
  grpc::ServerContext context;
  grpc::ServerAsyncReaderWriter<v1::RendezvousMessage, v1::AgentMessage> stream{&context};
};

// Takes a call that has begun; on a thread of `queues`, several at a time.
using SessionTaker = std::function<void(std::unique_ptr<SessionCall>)>;

// Has `take` called for each Session, from now until the server of `service` shuts down. Once the
// queues are started; everything must live until they are shut down.
void AcceptSessions(RendezvousService* service, CallQueues* queues, SessionTaker take);

// Ends a session that is not let in.
void Refuse(std::unique_ptr<SessionCall> call, const absl::Status& why);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_SESSION_ACCEPTOR_H_
