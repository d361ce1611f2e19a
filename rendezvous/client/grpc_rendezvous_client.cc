#include "rendezvous/client/grpc_rendezvous_client.h"

#include <utility>

#include "rendezvous/client/agent_session.h"
#include "rendezvous/core/check.h"

namespace ddprun {

GrpcRendezvousClient::GrpcRendezvousClient(Options options) : options_(std::move(options)) {}

GrpcRendezvousClient::~GrpcRendezvousClient() { Close(); }

void GrpcRendezvousClient::Open(Handler handler) {
  DDPRUN_CHECK(session_ == nullptr, "a client is opened once");
  session_ = std::make_unique<AgentSession>(options_, std::move(handler));
  session_->Open();
}

void GrpcRendezvousClient::Send(const Header& header, const AgentMessage& message) {
  DDPRUN_CHECK(session_ != nullptr, "a client is opened before it is used");
  session_->Send(header, message);
}

void GrpcRendezvousClient::Close() {
  if (session_ != nullptr) session_->Close();
}

void GrpcRendezvousClient::Abandon() {
  if (session_ != nullptr) session_->Abandon();
}

}  // namespace ddprun
