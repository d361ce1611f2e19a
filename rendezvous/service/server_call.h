// Calls that a gRPC server takes and answers on CallQueues, with gRPC's asynchronous interface.
//
//     using StopCall = UnaryCall<v1::StopRequest, v1::OperatorAnswer>;
//     AcceptCalls<StopCall>(queues, 1, [service](StopCall& call, auto... where) {
//       service->RequestStopJob(&call.context, &call.request, &call.responder, where...);
//     }, [](std::unique_ptr<StopCall> call) { StopCall::Finish(std::move(call), answer); });
#ifndef DDPRUN_RENDEZVOUS_SERVICE_SERVER_CALL_H_
#define DDPRUN_RENDEZVOUS_SERVICE_SERVER_CALL_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/service/call_queues.h"

namespace ddprun {

inline grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

// A call without its request. Exists until it has no pending operation.
template <class ResponderType>
struct ServerCall {
  explicit ServerCall(CallQueues& queues) : place(queues.Enter()) {}

  CallQueues::Place place;  // given back last
  grpc::ServerContext context;
  ResponderType responder{&context};
};

// Answers one request with a stream of messages.
template <class Request, class Message>
struct WriterCall : ServerCall<grpc::ServerAsyncWriter<Message>> {
  using ServerCall<grpc::ServerAsyncWriter<Message>>::ServerCall;

  Request request;
};

// Answers one request with one reply.
template <class Request, class Reply>
struct UnaryCall final : ServerCall<grpc::ServerAsyncResponseWriter<Reply>>, CallTag {
  using ServerCall<grpc::ServerAsyncResponseWriter<Reply>>::ServerCall;

  // Ends the call, from any thread.
  static void Finish(std::unique_ptr<UnaryCall> owned, const absl::StatusOr<Reply>& reply) {
    UnaryCall* const call = owned.release();  // until OnOperationDone
    if (reply.ok()) {
      call->responder.Finish(*reply, grpc::Status::OK, call->Tag());
    } else {
      call->responder.FinishWithError(ToGrpc(reply.status()), call->Tag());
    }
  }
  void OnOperationDone(bool) override { delete this; }

  Request request;
};

// Ends a streaming call before its first message.
template <class Call>
void RefuseCall(std::unique_ptr<Call> call, const absl::Status& why) {
  struct Refusal final : CallTag {
    explicit Refusal(std::unique_ptr<Call> call) : call(std::move(call)) {}
    void OnOperationDone(bool) override { delete this; }
    const std::unique_ptr<Call> call;
  };
  auto* const refusal = new Refusal(std::move(call));  // until OnOperationDone
  refusal->call->responder.Finish(ToGrpc(why), refusal->Tag());
}

// Ends a call of any kind before it is served.
template <class Call>
void EndCall(std::unique_ptr<Call> call, const absl::Status& why) {
  if constexpr (requires { Call::Finish(std::move(call), why); }) {
    Call::Finish(std::move(call), why);
  } else if constexpr (requires { Call::Refuse(std::move(call), why); }) {
    Call::Refuse(std::move(call), why);
  } else {
    RefuseCall(std::move(call), why);
  }
}

// Waits for calls of one method, one after the other. Deletes itself when the server shuts down.
template <class Call>
class CallAcceptor final : public CallTag {
 public:
  // Asks gRPC for a call: a Request... function of an AsyncService.
  using Ask = std::function<void(Call& call, grpc::CompletionQueue* queue,
                                 grpc::ServerCompletionQueue* accepting, void* tag)>;
  // Serves the call. Runs on the accepting thread, so it must not block.
  using Serve = std::function<void(std::unique_ptr<Call> call)>;

  CallAcceptor(CallQueues* queues, Ask ask, Serve serve)
      : queues_(queues), ask_(std::move(ask)), serve_(std::move(serve)) {}

  void Wait() {
    call_ = std::make_unique<Call>(*queues_);
    // Once gRPC has the tag, another thread may serve the call and delete this object.
    Call& call = *call_;
    const Ask ask = ask_;
    grpc::CompletionQueue* const queue = call.place.queue();
    grpc::ServerCompletionQueue* const accepting = queues_->accepting();
    ask(call, queue, accepting, Tag());
  }
  void OnOperationDone(bool ok) override {
    std::unique_ptr<Call> call = std::move(call_);
    if (!ok) {
      delete this;
      return;
    }
    Wait();  // first, so that another call does not wait for this one
    serve_(std::move(call));
  }

 private:
  CallQueues* const queues_;
  const Ask ask_;
  const Serve serve_;
  std::unique_ptr<Call> call_;  // gRPC fills it until OnOperationDone
};

// Serves each call of a method, from now until the server shuts down. Call it when the queues are
// started. All arguments must live until the queues are shut down. gRPC can begin `at_a_time` calls
// at the same time; further calls wait until a CallAcceptor asks gRPC again.
template <class Call>
void AcceptCalls(CallQueues* queues, int at_a_time, typename CallAcceptor<Call>::Ask ask,
                 typename CallAcceptor<Call>::Serve serve) {
  for (int i = 0; i < at_a_time; ++i) (new CallAcceptor<Call>(queues, ask, serve))->Wait();
}

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_SERVER_CALL_H_
