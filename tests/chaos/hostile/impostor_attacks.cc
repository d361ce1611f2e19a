#include "tests/chaos/hostile/impostor_attacks.h"

#include <chrono>
#include <utility>

#include "ddprun/v1/operator.grpc.pb.h"
#include "rendezvous/auth/transcript.h"
#include "tests/chaos/hostile/grpc_client.h"

namespace ddprun {

LoopbackAttacks::LoopbackAttacks(const LiveJob* job, const LiveJob* impostor)
    : endpoint_(job->endpoint()), impostor_(impostor->endpoint()) {
  auth::CredentialOptions options;
  options.token_file = TestStateHome() + "/localhost:" + std::to_string(job->port()) + "/token";
  owner_ = auth::ClientCredentials::Load(options).value();
}

void LoopbackAttacks::Joins(Verdicts& verdicts) const {
  grpc::ClientContext context;
  const auto message = JoinOf("live");
  verdicts.Add("loopback: a stranger joins", "UNAUTHENTICATED",
               Session(*Connect(endpoint_), context, &message));
}

void LoopbackAttacks::ReportsGone(Verdicts& verdicts) const {
  grpc::ClientContext context;
  verdicts.Add("loopback: a stranger reports an agent gone", "UNAUTHENTICATED",
               ReportGone(*Connect(endpoint_), context));
}

void LoopbackAttacks::Guesses(Verdicts& verdicts) const {
  const auto stub = Connect(endpoint_);
  const auto request = owner_->NewHandshake();
  grpc::ClientContext context;
  context.AddMetadata(auth::kProofMetadata, ForgedProof(*stub, request, request.name()));
  const auto message = JoinOf("live");
  verdicts.Add("loopback: a stranger guesses the token", "UNAUTHENTICATED",
               Session(*stub, context, &message));
}

void LoopbackAttacks::Stops(Verdicts& verdicts) const {
  grpc::ClientContext context;
  v1::StopRequest request;
  request.set_job("live");
  v1::OperatorAnswer answer;
  const auto channel = grpc::CreateChannel(endpoint_, grpc::InsecureChannelCredentials());
  const auto status = v1::Operator::NewStub(channel)->StopJob(&context, request, &answer);
  verdicts.Add("loopback: a stranger stops the job", "UNAUTHENTICATED",
               NameOf(status.error_code()));
}

void LoopbackAttacks::Poses(Verdicts& verdicts) const {
  grpc::ClientContext context;
  const auto status = owner_->Authorize(*Connect(impostor_), "Session",
                                        std::chrono::system_clock::now() + kPatience, &context);
  verdicts.Add("loopback: a stranger poses as the daemon", "does not trust it",
               absl::IsPermissionDenied(status) ? "does not trust it" : "trusts it");
}

RelayAttacks::RelayAttacks(const LiveJob* job, std::string secret)
    : endpoint_(job->endpoint()), secret_(std::move(secret)) {
  auth::CredentialOptions options;
  options.token_file = job->folder() + "/token";
  on_loopback_ = auth::ClientCredentials::Load(options).value();
  options.reachable = true;
  beyond_ = auth::ClientCredentials::Load(options).value();
}

void RelayAttacks::OurClient(Verdicts& verdicts, Relay::Speaks speaks) const {
  const Relay relay(endpoint_, speaks);
  const auto credentials = CredentialsFor(speaks);
  const auto stub = Connect(relay.endpoint(), credentials->NewTransport().credentials);
  grpc::ClientContext context;
  const auto status = credentials->Authorize(
      *stub, "Session", std::chrono::system_clock::now() + kPatience, &context);
  verdicts.Add("relay, " + NameOf(speaks) + ": our own client", "does not trust it",
               absl::IsPermissionDenied(status) ? "does not trust it" : status.ToString());
}

void RelayAttacks::CarelessClient(Verdicts& verdicts, Relay::Speaks speaks) const {
  const Relay relay(endpoint_, speaks);
  const auto credentials = CredentialsFor(speaks);
  const auto stub = Connect(relay.endpoint(), credentials->NewTransport().credentials);
  grpc::ClientContext handshake;
  handshake.set_wait_for_ready(true);  // as in the relay: a first try to connect may fail
  const auto request = credentials->NewHandshake();
  v1::HandshakeReply reply;
  stub->Handshake(&handshake, request, &reply);
  grpc::ClientContext context;
  context.AddMetadata(
      auth::kProofMetadata,
      NaiveProof(request, reply, speaks == Relay::Speaks::kTls ? relay.certificate() : "", secret_,
                 "Session"));
  const auto message = JoinOf("live");
  const std::string verdict = Session(*stub, context, &message);
  verdicts.Add("relay, " + NameOf(speaks) + ": a careless client", "UNAUTHENTICATED",
               relay.heard() == 0 ? verdict : "the relay has heard the rendezvous");
}

std::string RelayAttacks::NameOf(Relay::Speaks speaks) {
  return speaks == Relay::Speaks::kTls ? "a certificate of its own" : "without TLS";
}

const std::shared_ptr<const auth::ClientCredentials>& RelayAttacks::CredentialsFor(
    Relay::Speaks speaks) const {
  return speaks == Relay::Speaks::kTls ? beyond_ : on_loopback_;
}

void TlsAttack(const LiveJob& job, const std::string& kind, const std::string& identity,
               Verdicts& verdicts) {
  grpc::SslCredentialsOptions ssl;
  ssl.pem_root_certs = ReadFile(job.folder() + "/ours/ca.crt");
  if (!identity.empty()) {
    ssl.pem_cert_chain = ReadFile(job.folder() + "/" + identity + ".crt");
    ssl.pem_private_key = ReadFile(job.folder() + "/" + identity + ".key");
  }
  grpc::ClientContext context;
  const auto message = JoinOf("live");
  verdicts.Add(kind, "UNAVAILABLE",
               Session(*Connect(job.endpoint(), grpc::SslCredentials(ssl)), context, &message));
}

void PlainAttack(const LiveJob& job, const std::string& kind, Verdicts& verdicts) {
  grpc::ClientContext context;
  const auto message = JoinOf("live");
  verdicts.Add(kind, "UNAVAILABLE", Session(*Connect(job.endpoint()), context, &message));
}

}  // namespace ddprun
