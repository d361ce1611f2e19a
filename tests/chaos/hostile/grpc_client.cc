#include "tests/chaos/hostile/grpc_client.h"

#include <chrono>

#include "rendezvous/auth/crypto.h"
#include "tests/chaos/hostile/live_job.h"

namespace ddprun {

std::string NameOf(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK:
      return "OK";
    case grpc::StatusCode::UNAUTHENTICATED:
      return "UNAUTHENTICATED";
    case grpc::StatusCode::PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    case grpc::StatusCode::INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case grpc::StatusCode::UNAVAILABLE:
      return "UNAVAILABLE";
    case grpc::StatusCode::UNIMPLEMENTED:
      return "UNIMPLEMENTED";
    default:
      return "code " + std::to_string(code);
  }
}

std::unique_ptr<RendezvousStub> Connect(
    const std::string& endpoint, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return v1::Rendezvous::NewStub(grpc::CreateCustomChannel(endpoint, credentials, arguments));
}

v1::AgentMessage JoinOf(const std::string& job) {
  v1::AgentMessage message;
  message.mutable_header()->set_job(job);
  message.mutable_header()->set_generation(-1);
  message.mutable_header()->set_incarnation(666);
  auto& join = *message.mutable_join();
  join.mutable_job()->set_min_nodes(2);
  join.mutable_job()->set_max_nodes(2);
  join.mutable_job()->set_heartbeat_ms(1000);
  join.mutable_job()->set_lease_ms(3000);
  join.mutable_node()->set_host("evil");
  join.mutable_node()->set_address("10.0.0.66");
  join.mutable_node()->set_worker_count(2);
  join.set_offered_port(6666);
  return message;
}

std::string Session(RendezvousStub& stub, grpc::ClientContext& context,
                    const v1::AgentMessage* message) {
  context.set_deadline(std::chrono::system_clock::now() + 2 * kPatience);
  const auto stream = stub.Session(&context);
  if (message != nullptr) stream->Write(*message);
  v1::RendezvousMessage answer;
  bool told = false;
  while (stream->Read(&answer)) {
    told = true;
    context.TryCancel();
  }
  const grpc::Status status = stream->Finish();
  return told ? "was answered" : NameOf(status.error_code());
}

std::string ForgedProof(RendezvousStub& stub, const v1::HandshakeRequest& request,
                        const std::string& name) {
  grpc::ClientContext handshake;
  v1::HandshakeReply reply;
  stub.Handshake(&handshake, request, &reply);
  v1::AuthProof proof;
  proof.set_scheme(request.scheme());
  proof.set_name(name);
  proof.set_client_nonce(request.client_nonce());
  proof.set_server_nonce(reply.server_nonce());
  proof.set_client_proof(auth::RandomBytes(32));
  return proof.SerializeAsString();
}

std::string ReportGone(RendezvousStub& stub, grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  v1::GoneReport report;
  *report.mutable_header() = JoinOf("live").header();
  v1::GoneReceived received;
  return NameOf(stub.ReportGone(&context, report, &received).error_code());
}

}  // namespace ddprun
