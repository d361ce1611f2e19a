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
#include "rendezvous/auth/grpc_log.h"
#include "rendezvous/auth/server_credentials.h"
#include "rendezvous/json/status_json.h"
#include "rendezvous/service/call_queues.h"
#include "rendezvous/service/descriptor_guard.h"
#include "rendezvous/service/event_log.h"
#include "rendezvous/service/gate.h"
#include "rendezvous/service/listen_address.h"
#include "rendezvous/service/operator_service.h"
#include "rendezvous/service/server_call.h"
#include "rendezvous/service/session.h"
#include "rendezvous/service/tcp_acceptor.h"
#include "rendezvous/wire/limits.h"
#include "rendezvous/wire/record.h"
#include "rendezvous/wire/translate.h"
#include "worker/contract/task_queue.h"

namespace ddprun {
namespace {

constexpr std::chrono::seconds kShutdownGrace(1);
constexpr int kHandshakeTimeoutMs = 10'000;
constexpr int kIdleTimeoutMs = 60'000;
constexpr int kMaxMetadataBytes = 16'384;
constexpr int kSessionsAtATime = 8;
constexpr std::size_t kSlowTaskThreads = 4;
// Also of a stranger, whose calls may be half sent. An agent has one or two; the others are for
// programs that stand for many.
constexpr int kMostCallsOfAConnection = 1024;

void Configure(grpc::ServerBuilder& builder, bool is_unix) {
  builder.SetMaxReceiveMessageSize(wire::kMaxMessageBytes);
  builder.SetMaxSendMessageSize(wire::kMaxMessageBytes);
  // Probing for bandwidth costs a third of the CPU of a heartbeat, and our messages are small.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // Who connects and says nothing: until TLS and HTTP/2 have shaken hands, and without any call.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostCallsOfAConnection);
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

absl::StatusOr<std::vector<RecordedJob>> LoadJobs(Store& store, const JobLog& log) {
  const auto stored = store.Load();
  if (!stored.ok()) return stored.status();
  std::vector<RecordedJob> jobs;
  for (const auto& [key, value] : *stored) {
    std::optional<std::string> name = wire::JobOfKey(key);
    if (!name) continue;  // of a later version
    auto record = wire::DecodeRecord(value);
    if (!record.ok()) {  // the other jobs must not wait for it; its record stays where it is
      log(*name,
          absl::StrCat("the record of this job cannot be read, and it is not taken up again: ",
                       std::string(record.status().message())));
      continue;
    }
    jobs.push_back({*std::move(name), std::move(record->owner), std::move(record->record)});
  }
  return jobs;
}

}  // namespace

class RendezvousServer::Service {
 public:
  Service(std::shared_ptr<RoundLoop> loop, std::shared_ptr<Gate> gate,
          const DescriptorGuard* descriptors)
      : loop_(std::move(loop)), gate_(std::move(gate)), descriptors_(descriptors) {}

  grpc::Service* service() { return &service_; }

  // Takes calls until the server shuts down.
  void Serve(CallQueues* queues, TaskQueue* tasks) {
    AcceptCalls<SessionCall>(
        queues, kSessionsAtATime,
        [this](SessionCall& call, auto... where) {
          service_.RequestSession(&call.context, &call.responder, where...);
        },
        [this, tasks](std::unique_ptr<SessionCall> call) {
          Do(tasks, [this, call = std::move(call)]() mutable { BeginSession(std::move(call)); });
        });
    AcceptCalls<GoneCall>(
        queues, 1,
        [this](GoneCall& call, auto... where) {
          service_.RequestReportGone(&call.context, &call.request, &call.responder, where...);
        },
        [this, tasks](std::unique_ptr<GoneCall> call) {
          Do(tasks, [this, call = std::move(call)]() mutable { ReportGone(std::move(call)); });
        });
    AcceptCalls<HandshakeCall>(
        queues, kSessionsAtATime,
        [this](HandshakeCall& call, auto... where) {
          service_.RequestHandshake(&call.context, &call.request, &call.responder, where...);
        },
        [this, tasks](std::unique_ptr<HandshakeCall> call) {
          Do(tasks, [this, call = std::move(call)]() mutable {
            auto answer = gate_->Handshake(call->context, call->request);
            HandshakeCall::Finish(std::move(call), answer);
          });
        });
  }

 private:
  using GoneCall = UnaryCall<v1::GoneReport, v1::GoneReceived>;
  using HandshakeCall = UnaryCall<v1::HandshakeRequest, v1::HandshakeReply>;

  // Elsewhere only if it may take long: that costs a switch of threads.
  template <class Task>
  void Do(TaskQueue* tasks, Task task) {
    if (gate_->may_wait()) {
      tasks->Post(std::move(task));
    } else {
      task();
    }
  }

  void BeginSession(std::unique_ptr<SessionCall> call) {
    if (absl::Status room = descriptors_->CheckSession(); !room.ok()) {
      gate_->refusals().Count(refusal::kNoDescriptors,
                              absl::StrCat(call->context.peer(), ": ", room.message()));
      RefuseCall(std::move(call), room);
      return;
    }
    absl::StatusOr<Gate::Place> place = gate_->Enter(call->context);
    if (!place.ok()) {
      RefuseCall(std::move(call), place.status());
      return;
    }
    Session::Begin(loop_, *std::move(place), std::move(call));
  }

  void ReportGone(std::unique_ptr<GoneCall> call) {
    const absl::StatusOr<auth::Principal> principal = gate_->Check(call->context, "ReportGone");
    absl::StatusOr<Header> header =
        principal.ok() ? wire::FromProto(call->request) : principal.status();
    if (!header.ok()) {
      if (principal.ok()) {
        gate_->refusals().Count(refusal::kMalformed, absl::StrCat(call->context.peer(), ": ",
                                                                  header.status().message()));
      }
      GoneCall::Finish(std::move(call), header.status());
      return;
    }
    loop_->OnAgentGone(
        *std::move(header), *principal,
        [gate = gate_, call = call.release()](const absl::Status& status) {  // called once
          std::unique_ptr<GoneCall> owned(call);
          if (absl::IsPermissionDenied(status)) {
            gate->refusals().Count(refusal::kOtherOwner,
                                   absl::StrCat(owned->context.peer(), ": ", status.message()));
          }
          GoneCall::Finish(std::move(owned),
                           status.ok() ? absl::StatusOr<v1::GoneReceived>(v1::GoneReceived())
                                       : absl::StatusOr<v1::GoneReceived>(status));
        });
  }

  const std::shared_ptr<RoundLoop> loop_;
  const std::shared_ptr<Gate> gate_;
  const DescriptorGuard* const descriptors_;  // the server's, which outlives its service
  v1::Rendezvous::AsyncService service_;
};

struct RendezvousServer::GrpcServer {
  explicit GrpcServer(std::size_t sessions_per_thread) : queues(sessions_per_thread) {}

  // Both outlive the server. The queues wait for the calls, so that no task is left after them.
  TaskQueue tasks{"ddprun-slow", kSlowTaskThreads};
  CallQueues queues;
  // Where connections come from that we accept ourselves; ends before the server.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections;
  std::unique_ptr<grpc::Server> server;
};

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(Options options) {
  const auto cannot_listen = [&](const absl::Status& why) {
    return absl::Status(why.code(),
                        absl::StrCat("cannot listen on ", options.listen, ": ", why.message()));
  };
  const absl::StatusOr<ListenAddress> address = ParseListenAddress(options.listen);
  if (!address.ok()) return cannot_listen(address.status());
  // Before anybody can connect, who would wait for an answer while a long journal is read.
  RoundLoopOptions loop;
  if (options.store != nullptr) {
    auto jobs = LoadJobs(*options.store, options.log);
    if (!jobs.ok()) return jobs.status();
    loop.recorded = *std::move(jobs);
  }
  std::unique_ptr<RendezvousServer> result(new RendezvousServer);
  result->descriptors_ = std::make_unique<DescriptorGuard>(options.descriptor_limit);
  if (address->is_unix()) {
    const absl::Status status = TryListenUnix(address->path);
    if (!status.ok()) return cannot_listen(status);
  } else {
    auto acceptor = TcpAcceptor::Bind(*address);
    if (!acceptor.ok()) return cannot_listen(acceptor.status());
    result->acceptor_ = *std::move(acceptor);
  }
  result->version_ = std::move(options.version);
  result->started_ = std::chrono::steady_clock::now();
  result->events_ = options.events;
  const auto& credentials = options.credentials;
  result->gate_ =
      std::make_shared<Gate>(credentials == nullptr ? nullptr : credentials->authenticator,
                             options.max_streams_per_address,
                             [log = options.log](const std::string& text) { log("", text); });
  auth::OnTlsHandshakeFailed([gate = std::weak_ptr(result->gate_)](const std::string& reason) {
    const auto alive = gate.lock();
    if (alive == nullptr) return;
    alive->refusals().Count(refusal::kTlsHandshake, absl::StrCat("a connection: TLS: ", reason));
  });
  result->store_ = std::move(options.store);
  loop.round = options.round;
  loop.time_to_join = options.time_to_join;
  loop.log = options.log;
  loop.load = [server = result.get(), next = std::move(options.load)](const RoundLoopLoad& load) {
    {
      const std::lock_guard lock(server->load_mutex_);
      server->load_ = load;
    }
    if (next) next(load);
  };
  if (options.events != nullptr) {
    loop.events = [events = options.events](std::string_view job, std::string_view owner,
                                            std::uint32_t epoch, const JobEvent& event) {
      events->Add(job, owner, epoch, event);
    };
  }
  loop.store = result->store_.get();
  result->loop_ = std::make_shared<RoundLoop>(std::move(loop));
  result->service_ =
      std::make_unique<Service>(result->loop_, result->gate_, result->descriptors_.get());
  const std::shared_ptr<grpc::ServerCredentials> transport =
      credentials == nullptr ? grpc::InsecureServerCredentials() : credentials->transport;
  grpc::ServerBuilder builder;
  Configure(builder, address->is_unix());
  auto grpc_server = std::make_unique<GrpcServer>(options.sessions_per_thread);
  if (address->is_unix()) {
    builder.AddListeningPort(options.listen, transport);
  } else {
    using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
    grpc_server->connections =
        builder.experimental().AddExternalConnectionAcceptor(Type::FROM_FD, transport);
  }
  grpc_server->queues.AddTo(builder);
  builder.RegisterService(result->service_->service());
  if (options.events != nullptr) {
    result->operator_service_ = std::make_unique<OperatorService>(OperatorService::Options{
        result->loop_, options.events, [server = result.get()] { return server->Describe(); },
        [gate = result->gate_](const grpc::ServerContextBase& context,
                               std::string_view method) -> absl::StatusOr<std::string> {
          absl::StatusOr<auth::Principal> principal = gate->Check(context, method);
          // root of MUNGE may see and end what is everybody's.
          if (principal.ok() && auth::MayAct(*principal, "")) return std::string();
          return principal;
        },
        [gate = result->gate_](const grpc::ServerContextBase& context, const char* counter,
                               const absl::Status& why) {
          gate->refusals().Count(counter, absl::StrCat(context.peer(), ": ", why.message()));
        }});
    builder.RegisterService(result->operator_service_->service());
  }
  grpc_server->server = builder.BuildAndStart();
  if (grpc_server->server == nullptr) {
    return cannot_listen(absl::UnavailableError("gRPC refused it"));
  }
  grpc_server->queues.Start();
  result->service_->Serve(&grpc_server->queues, &grpc_server->tasks);
  if (result->operator_service_ != nullptr) {
    result->operator_service_->Serve(&grpc_server->queues, &grpc_server->tasks);
  }
  result->server_ = std::move(grpc_server);
  if (address->is_unix()) {
    if (chmod(address->path.c_str(), 0600) != 0) {
      return cannot_listen(absl::UnavailableError(
          absl::StrCat("cannot set mode 0600: ", std::generic_category().message(errno))));
    }
    return result;
  }
  result->port_ = result->acceptor_->port();
  result->acceptor_->Start(
      result->descriptors_.get(),
      [connections = result->server_->connections.get()](int listener, int connection) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
        parameters.listener_fd = listener;
        parameters.fd = connection;
        connections->HandleNewConnection(&parameters);
      },
      [log = options.log](const std::string& text) { log("", text); });
  return result;
}

DaemonStatus RendezvousServer::Describe() const {
  DaemonStatus status;
  status.version = version_;
  status.uptime = std::chrono::steady_clock::now() - started_;
  {
    const std::lock_guard lock(load_mutex_);
    status.sessions = load_.sessions;
    status.jobs_begun = load_.jobs_begun;
  }
  status.descriptors = descriptors_->InUse();
  status.descriptor_limit = descriptors_->session_limit();
  status.event_lines_dropped = events_ == nullptr ? 0 : events_->dropped_from_file();
  status.refused = Refusals();
  if (acceptor_ != nullptr && acceptor_->refused() > 0) {
    status.refused["connections_without_descriptors"] = acceptor_->refused();
  }
  return status;
}

std::map<std::string, std::uint64_t> RendezvousServer::Refusals() const {
  return gate_->refusals().Snapshot();
}

RendezvousServer::~RendezvousServer() { Shutdown(); }

void RendezvousServer::Shutdown() {
  if (acceptor_ != nullptr) acceptor_->Stop();
  if (loop_ != nullptr) loop_->Shutdown();
  if (events_ != nullptr) events_->Close();
  if (server_ == nullptr) return;
  // Waits for the sessions, which the loop has told to end, and cancels those that do not.
  server_->server->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  server_->queues.Shutdown();
  server_.reset();
}

}  // namespace ddprun
