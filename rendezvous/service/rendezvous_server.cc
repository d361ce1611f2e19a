#include "rendezvous/service/rendezvous_server.h"

#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/service/listen_address.h"
#include "rendezvous/service/session.h"
#include "rendezvous/wire/grpc_handoff.h"
#include "rendezvous/wire/limits.h"
#include "rendezvous/wire/record.h"
#include "rendezvous/wire/translate.h"

namespace ddprun {
namespace {

constexpr std::chrono::seconds kShutdownGrace(1);

void Configure(grpc::ServerBuilder& builder, bool is_unix) {
  builder.SetMaxReceiveMessageSize(wire::kMaxMessageBytes);
  builder.SetMaxSendMessageSize(wire::kMaxMessageBytes);
  // Two servers on one port would share the agents between them.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Probing for bandwidth costs a third of the CPU of a heartbeat, and our messages are small.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  if (is_unix) return;  // the kernel tells at once when the other side is gone
  // Ends the connection of a node that lost its power or its network; its lease is over long
  // before. Not short: when thousands of agents come at once, answers to pings are read late.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // The agents do the same; without this their pings end the connection (too_many_pings).
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
}

absl::StatusOr<std::vector<RecordedJob>> LoadJobs(Store& store) {
  const auto stored = store.Load();
  if (!stored.ok()) return stored.status();
  std::vector<RecordedJob> jobs;
  for (const auto& [key, value] : *stored) {
    std::optional<std::string> name = wire::JobOfKey(key);
    if (!name) continue;  // of a later version
    auto record = wire::DecodeRecord(value);
    if (!record.ok()) {
      return absl::DataLossError(absl::StrCat("the record of job ", *name, " cannot be read: ",
                                              std::string(record.status().message())));
    }
    jobs.push_back({*std::move(name), std::move(record->owner), std::move(record->record)});
  }
  return jobs;
}

}  // namespace

class RendezvousServer::Service final : public v1::Rendezvous::CallbackService {
 public:
  explicit Service(std::shared_ptr<RoundLoop> loop) : loop_(std::move(loop)) {}

  grpc::ServerBidiReactor<v1::AgentMessage, v1::RendezvousMessage>* Session(
      grpc::CallbackServerContext* context) override {
    wire::TakeFromGrpc(this);
    return ddprun::Session::Begin(loop_, context);
  }

  grpc::ServerUnaryReactor* ReportGone(grpc::CallbackServerContext* context,
                                       const v1::GoneReport* report, v1::GoneReceived*) override {
    wire::TakeFromGrpc(this);
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    absl::StatusOr<Header> header = wire::FromProto(*report);
    if (header.ok()) {
      loop_->OnAgentGone(*std::move(header));
      reactor->Finish(grpc::Status::OK);
    } else {
      reactor->Finish({grpc::StatusCode::INVALID_ARGUMENT, std::string(header.status().message())});
    }
    return reactor;
  }

 private:
  const std::shared_ptr<RoundLoop> loop_;
};

struct RendezvousServer::GrpcServer {
  std::unique_ptr<grpc::Server> server;
};

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(Options options) {
  const auto cannot_listen = [&](const absl::Status& why) {
    return absl::Status(why.code(),
                        absl::StrCat("cannot listen on ", options.listen, ": ", why.message()));
  };
  const absl::StatusOr<ListenAddress> address = ParseListenAddress(options.listen);
  if (!address.ok()) return cannot_listen(address.status());
  if (const absl::Status status = TryListen(*address); !status.ok()) return cannot_listen(status);

  std::unique_ptr<RendezvousServer> result(new RendezvousServer);
  RoundLoopOptions loop;
  if (options.store != nullptr) {
    auto jobs = LoadJobs(*options.store);
    if (!jobs.ok()) return jobs.status();
    loop.recorded = *std::move(jobs);
  }
  result->store_ = std::move(options.store);
  loop.round = options.round;
  loop.log = std::move(options.log);
  loop.load = std::move(options.load);
  loop.events = std::move(options.events);
  loop.store = result->store_.get();
  result->loop_ = std::make_shared<RoundLoop>(std::move(loop));
  result->service_ = std::make_unique<Service>(result->loop_);
  grpc::ServerBuilder builder;
  Configure(builder, address->is_unix());
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(result->service_.get());
  wire::HandToGrpc(result->service_.get());
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return cannot_listen(absl::UnavailableError("it was taken a moment ago, or gRPC refused it"));
  }
  result->server_ = std::make_unique<GrpcServer>(GrpcServer{std::move(server)});
  if (address->is_unix()) {
    if (chmod(address->path.c_str(), 0600) != 0) {
      return cannot_listen(absl::UnavailableError(
          absl::StrCat("cannot set mode 0600: ", std::generic_category().message(errno))));
    }
  } else {
    result->port_ = port;
  }
  return result;
}

RendezvousServer::~RendezvousServer() { Shutdown(); }

void RendezvousServer::Shutdown() {
  if (loop_ != nullptr) loop_->Shutdown();
  if (server_ == nullptr) return;
  // Waits for the sessions, which the loop has told to end, and cancels those that do not.
  server_->server->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  server_.reset();
}

}  // namespace ddprun
