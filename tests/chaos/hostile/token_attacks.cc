#include "tests/chaos/hostile/token_attacks.h"

#include <cstdio>

#include "rendezvous/auth/transcript.h"

namespace ddprun {

void TokenAttacks::NoProof(Verdicts& verdicts) const {
  grpc::ClientContext context;
  const auto message = JoinOf("live");
  verdicts.Add("token: no proof, a session", "UNAUTHENTICATED",
               Session(*Connect(endpoint_), context, &message));
}

void TokenAttacks::NoProofReport(Verdicts& verdicts) const {
  grpc::ClientContext context;
  verdicts.Add("token: no proof, an agent reported gone", "UNAUTHENTICATED",
               ReportGone(*Connect(endpoint_), context));
}

void TokenAttacks::WrongToken(Verdicts& verdicts) const {
  // Unlike a client of ddprun, this client answers although the server has not proven anything.
  const auto stub = Connect(endpoint_);
  grpc::ClientContext context;
  context.AddMetadata(auth::kProofMetadata, ForgedProof(*stub, wrong_->NewHandshake(), "ann"));
  const auto message = JoinOf("live");
  verdicts.Add("token: a wrong one", "UNAUTHENTICATED", Session(*stub, context, &message));
  grpc::ClientContext honest;
  const auto status = wrong_->Authorize(*stub, "Session", Deadline(), &honest);
  verdicts.Add("token: a wrong one, our own client", "does not trust it",
               absl::IsPermissionDenied(status) ? "does not trust it" : "trusts it");
}

void TokenAttacks::Replay(Verdicts& verdicts) const {
  const auto stub = Connect(endpoint_);
  grpc::ClientContext handshake;
  const auto request = other_->NewHandshake();
  v1::HandshakeReply reply;
  stub->Handshake(&handshake, request, &reply);
  const auto proof = other_->Prove(request, reply, "ReportGone", "");
  const std::string text = proof.ok() ? *proof : "";
  grpc::ClientContext first;
  first.AddMetadata(auth::kProofMetadata, text);
  verdicts.Add("token: of another owner, an agent reported gone", "PERMISSION_DENIED",
               ReportGone(*stub, first));
  grpc::ClientContext second;
  second.AddMetadata(auth::kProofMetadata, text);
  verdicts.Add("token: a proof again", "UNAUTHENTICATED", ReportGone(*stub, second));
  grpc::ClientContext third;
  third.AddMetadata(auth::kProofMetadata, text);
  verdicts.Add("token: a proof again, from elsewhere", "UNAUTHENTICATED",
               ReportGone(*Connect(endpoint_), third));
}

void TokenAttacks::OtherOwner(Verdicts& verdicts) const {
  const auto stub = Connect(endpoint_);
  grpc::ClientContext context;
  const auto message = JoinOf("live");
  Authorize(*other_, *stub, &context);
  verdicts.Add("token: of another owner, joins", "PERMISSION_DENIED",
               Session(*stub, context, &message));
}

void TokenAttacks::OddMetadata(Verdicts& verdicts, std::mt19937_64& random) const {
  grpc::ClientContext context;
  std::string text(random() % 8000, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  context.AddMetadata(auth::kProofMetadata, text);
  verdicts.Add("token: nonsense as a proof", "UNAUTHENTICATED",
               ReportGone(*Connect(endpoint_), context));
}

void TokenAttacks::OddHandshake(Verdicts& verdicts, std::mt19937_64& random) const {
  v1::HandshakeRequest request = wrong_->NewHandshake();
  if (random() % 2 == 0) {
    request.set_client_nonce(std::string(random() % 32, 'x'));
  } else {
    request.set_name(std::string(65 + random() % 1000, 'x'));
  }
  grpc::ClientContext context;
  v1::HandshakeReply reply;
  verdicts.Add("token: a handshake out of bounds", "INVALID_ARGUMENT",
               NameOf(Connect(endpoint_)->Handshake(&context, request, &reply).error_code()));
}

void TokenAttacks::Malformed(Verdicts& verdicts, std::mt19937_64& random) const {
  v1::AgentMessage message = JoinOf("live");
  switch (random() % 4) {
    case 0:
      message.mutable_header()->set_incarnation(0);
      break;
    case 1:
      message.mutable_header()->set_job(std::string(300, 'j'));
      break;
    case 2:
      message.mutable_join()->mutable_node()->set_worker_count(1 << 20);
      break;
    default:
      message.mutable_drained();
      break;  // a message that must not come before a Join
  }
  const auto stub = Connect(endpoint_);
  grpc::ClientContext context;
  Authorize(*owner_, *stub, &context);
  verdicts.Add("insider: a message out of bounds", "INVALID_ARGUMENT",
               Session(*stub, context, &message));
}

void TokenAttacks::Oversized(Verdicts& verdicts) const {
  v1::AgentMessage message = JoinOf("live");
  message.mutable_join()->mutable_node()->set_host(std::string(2 << 20, 'h'));
  const auto stub = Connect(endpoint_);
  grpc::ClientContext context;
  Authorize(*owner_, *stub, &context);
  verdicts.Add("insider: a message of 2 MiB", "RESOURCE_EXHAUSTED",
               Session(*stub, context, &message));
}

void TokenAttacks::NoJoin(Verdicts& verdicts) const {
  const auto stub = Connect(endpoint_);
  grpc::ClientContext context;
  Authorize(*owner_, *stub, &context);
  verdicts.Add("insider: a session without a Join", "DEADLINE_EXCEEDED",
               Session(*stub, context, nullptr));
}

std::chrono::system_clock::time_point TokenAttacks::Deadline() {
  return std::chrono::system_clock::now() + kPatience;
}

TokenAttacks::Credentials TokenAttacks::Load(const std::string& path) {
  auth::CredentialOptions options;
  options.token_file = path;
  return auth::ClientCredentials::Load(options).value();
}

void TokenAttacks::Authorize(const auth::ClientCredentials& credentials, RendezvousStub& stub,
                             grpc::ClientContext* context) {
  const auto status = credentials.Authorize(stub, "Session", Deadline(), context);
  if (!status.ok()) std::printf("%s\n", status.ToString().c_str());
}

}  // namespace ddprun
