#include "rendezvous/service/session_acceptor.h"

#include <string>
#include <utility>

#include "rendezvous/wire/grpc_handoff.h"

namespace ddprun {
namespace {

// Calls that gRPC may have begun on a queue before we ask for the next one. More of them only wait
// in the server a little longer.
constexpr int kRequestsPerQueue = 8;

// Waits for one call after the other. Deletes itself when the server shuts down.
class Request final : public CallTag {
 public:
  static void Begin(RendezvousService* service, CallQueues* queues,
                    grpc::ServerCompletionQueue* accepting, std::shared_ptr<SessionTaker> take) {
    (new Request(service, queues, accepting, std::move(take)))->Wait();
  }

  void OnOperationDone(bool ok) override {
    wire::TakeFromGrpc(this);
    if (!ok) {
      delete this;
      return;
    }
    std::unique_ptr<SessionCall> call = std::move(call_);
    const std::shared_ptr<SessionTaker> take = take_;
    Wait();  // first: another call is not to wait for this one. This may be gone after it.
    (*take)(std::move(call));
  }

 private:
  Request(RendezvousService* service, CallQueues* queues, grpc::ServerCompletionQueue* accepting,
          std::shared_ptr<SessionTaker> take)
      : service_(service), queues_(queues), accepting_(accepting), take_(std::move(take)) {}

  void Wait() {
    call_ = std::make_unique<SessionCall>(*queues_);
    wire::HandToGrpc(this);
    service_->RequestSession(&call_->context, &call_->stream, call_->place.queue(), accepting_,
                             static_cast<CallTag*>(this));
  }

  RendezvousService* const service_;
  CallQueues* const queues_;
  grpc::ServerCompletionQueue* const accepting_;
  const std::shared_ptr<SessionTaker> take_;
  std::unique_ptr<SessionCall> call_;  // gRPC's
};

class Refusal final : public CallTag {
 public:
  explicit Refusal(std::unique_ptr<SessionCall> call) : call_(std::move(call)) {}

  void End(const grpc::Status& why) {
    wire::HandToGrpc(this);
    call_->stream.Finish(why, static_cast<CallTag*>(this));
  }
  void OnOperationDone(bool) override {
    wire::TakeFromGrpc(this);
    delete this;
  }

 private:
  const std::unique_ptr<SessionCall> call_;
};

}  // namespace

void AcceptSessions(RendezvousService* service, CallQueues* queues, SessionTaker take) {
  const auto shared = std::make_shared<SessionTaker>(std::move(take));
  for (grpc::ServerCompletionQueue* const accepting : queues->accepting()) {
    for (int i = 0; i < kRequestsPerQueue; ++i) Request::Begin(service, queues, accepting, shared);
  }
}

void Refuse(std::unique_ptr<SessionCall> call, const absl::Status& why) {
  (new Refusal(std::move(call)))
      ->End({static_cast<grpc::StatusCode>(why.code()), std::string(why.message())});
}

}  // namespace ddprun
