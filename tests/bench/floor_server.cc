#include "tests/bench/floor_server.h"

#include <grpcpp/grpcpp.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/auth/authenticator.h"
#include "rendezvous/auth/certificates.h"
#include "rendezvous/auth/tls/identity.h"
#include "rendezvous/auth/tokens.h"

namespace ddprun {
namespace {

class FloorStream;

// What the streams share.
struct Floor {
  v1::RendezvousMessage assignment;
  v1::RendezvousMessage start;
  v1::RendezvousMessage stop;
  std::size_t barrier = 0;

  std::mutex mutex;
  std::unordered_set<FloorStream*> streams;  // open; guarded by mutex
  std::vector<FloorStream*> waiting;         // for the barrier; guarded by mutex
};

class FloorStream final : public grpc::ServerBidiReactor<v1::AgentMessage, v1::RendezvousMessage> {
 public:
  explicit FloorStream(Floor* floor) : floor_(floor) {
    const std::lock_guard lock(floor_->mutex);
    floor_->streams.insert(this);
    StartSendInitialMetadata();  // an agent waits for it
    StartRead(&incoming_);
  }

  // `message` outlives the stream. An agent may answer a message before gRPC reports the end of its
  // write, so one more message can be waiting.
  void Write(const v1::RendezvousMessage& message) {
    const std::lock_guard lock(mutex_);
    if (writing_) {
      next_ = &message;
      return;
    }
    writing_ = true;
    StartWrite(&message);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      End();
      return;
    }
    const auto body = incoming_.body_case();
    StartRead(&incoming_);
    if (body == v1::AgentMessage::kJoin || body == v1::AgentMessage::kDrained) {
      Answer(floor_->assignment);
    } else if (body == v1::AgentMessage::kPrepared) {
      Answer(floor_->start);
    } else if (body == v1::AgentMessage::kWorkerExited) {
      const std::lock_guard lock(floor_->mutex);
      for (FloorStream* stream : floor_->streams) stream->Write(floor_->stop);
    }
  }
  void OnWriteDone(bool) override {
    const std::lock_guard lock(mutex_);
    writing_ = next_ != nullptr;
    if (writing_) StartWrite(std::exchange(next_, nullptr));
  }
  void OnDone() override { delete this; }

 private:
  void Answer(const v1::RendezvousMessage& message) {
    if (floor_->barrier == 0) {
      Write(message);
      return;
    }
    std::vector<FloorStream*> all;
    {
      const std::lock_guard lock(floor_->mutex);
      floor_->waiting.push_back(this);
      if (floor_->waiting.size() < floor_->barrier) return;
      all.swap(floor_->waiting);
    }
    for (FloorStream* stream : all) stream->Write(message);
  }
  void End() {
    {
      const std::lock_guard lock(floor_->mutex);
      floor_->streams.erase(this);
    }
    Finish(grpc::Status::OK);
  }

  Floor* const floor_;  // outlives the server
  v1::AgentMessage incoming_;

  std::mutex mutex_;  // guards what follows
  bool writing_ = false;
  const v1::RendezvousMessage* next_ = nullptr;
};

class FloorService final : public v1::Rendezvous::CallbackService {
 public:
  // Both outlive the service. `authenticator`: null if no agent asks for a Handshake.
  FloorService(Floor* floor, const auth::Authenticator* authenticator)
      : floor_(floor), authenticator_(authenticator) {}
  grpc::ServerBidiReactor<v1::AgentMessage, v1::RendezvousMessage>* Session(
      grpc::CallbackServerContext*) override {
    return new FloorStream(floor_);
  }
  grpc::ServerUnaryReactor* Handshake(grpc::CallbackServerContext* context,
                                      const v1::HandshakeRequest* request,
                                      v1::HandshakeReply* reply) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    auto answer = authenticator_->Answer(*request, context->peer());
    if (answer.ok()) *reply = *std::move(answer);
    reactor->Finish(answer.ok() ? grpc::Status::OK
                                : grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "no"));
    return reactor;
  }

 private:
  Floor* const floor_;
  const auth::Authenticator* const authenticator_;
};

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const FloorServerOptions& options,
                                                       const auth::TlsPem& own) {
  if (!options.token_file.empty()) {
    grpc::SslServerCredentialsOptions ssl;
    ssl.pem_key_cert_pairs.push_back({own.key, own.cert});
    return grpc::SslServerCredentials(ssl);
  }
  if (options.tls_cert.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions ssl(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  ssl.pem_root_certs = ReadAll(options.tls_ca);
  ssl.pem_key_cert_pairs.push_back({ReadAll(options.tls_key), ReadAll(options.tls_cert)});
  return grpc::SslServerCredentials(ssl);
}

}  // namespace

int ServeFloor(const FloorServerOptions& options) {
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  sigprocmask(SIG_BLOCK, &end, nullptr);  // before any thread is started

  Floor floor;
  floor.barrier = static_cast<std::size_t>(options.barrier);
  v1::Assignment* const assignment = floor.assignment.mutable_assignment();
  while (floor.assignment.ByteSizeLong() < options.assignment_bytes) {
    assignment->mutable_master_addr()->push_back('x');
  }
  floor.start.mutable_start();
  while (floor.start.ByteSizeLong() < options.start_bytes) {
    floor.start.mutable_header()->mutable_job()->push_back('x');
  }
  v1::Stop* const stop = floor.stop.mutable_stop();
  while (floor.stop.ByteSizeLong() < options.stop_bytes) stop->mutable_reason()->push_back('x');

  const bool handshakes = !options.token_file.empty();
  const auth::TlsPem own = handshakes ? auth::MakeSelfSigned("floor") : auth::TlsPem{};
  const auth::Authenticator authenticator(
      {.tokens =
           handshakes ? auth::LoadTokens(options.token_file).value() : std::vector<auth::Token>(),
       .munge = nullptr,
       .identity = std::make_shared<auth::TlsIdentity>(own)});
  FloorService service(&floor, &authenticator);
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // The agents' keepalive pings must not end their connections.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", CredentialsOf(options, own), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::ofstream(options.port_file) << port << "\n";
  std::printf("listening\n");
  std::fflush(stdout);
  int signo = 0;
  sigwait(&end, &signo);
  server->Shutdown(std::chrono::system_clock::now());
  return 0;
}

}  // namespace ddprun
