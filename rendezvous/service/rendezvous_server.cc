#include "rendezvous/service/rendezvous_server.h"

#include <grpcpp/grpcpp.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/auth/crypto.h"
#include "rendezvous/auth/grpc_log.h"
#include "rendezvous/auth/server_credentials.h"
#include "rendezvous/json/status_json.h"
#include "rendezvous/service/acceptor.h"
#include "rendezvous/service/access_control.h"
#include "rendezvous/service/agent_service.h"
#include "rendezvous/service/call_queues.h"
#include "rendezvous/service/descriptor_guard.h"
#include "rendezvous/service/job/event_log.h"
#include "rendezvous/service/leadership/leader_board.h"
#include "rendezvous/service/listen_address.h"
#include "rendezvous/service/operators/operator_service.h"
#include "rendezvous/service/slow_calls.h"
#include "rendezvous/wire/limits.h"
#include "rendezvous/wire/record.h"
#include "worker/contract/task_queue.h"

namespace ddprun {
namespace {

constexpr std::chrono::seconds kShutdownGrace(1);
constexpr int kHandshakeTimeoutMs = 10'000;
constexpr int kIdleTimeoutMs = 60'000;
constexpr int kMaxMetadataBytes = 16'384;
constexpr std::size_t kSlowTaskThreads = 4;
// The limit also holds for a stranger, whose calls may be incomplete. An agent has one or two
// calls. The limit is higher for benchmarks, in which one connection serves many agents.
constexpr int kMostCallsOfAConnection = 1024;

void Configure(grpc::ServerBuilder& builder, bool is_unix) {
  builder.SetMaxReceiveMessageSize(wire::kMaxMessageBytes);
  builder.SetMaxSendMessageSize(wire::kMaxMessageBytes);
  // Probing for bandwidth costs a third of the CPU of a heartbeat, and our messages are small.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // Limits for a client that connects and sends nothing: the time of the TLS and HTTP/2 handshakes,
  // and the time without a call.
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostCallsOfAConnection);
  if (is_unix) return;  // the kernel tells at once when the other side is gone
  // Ends the connection of a node that lost its power or its network. The node's lease is over long
  // before. The times are not shorter, because answers to pings are read late when thousands of
  // agents come at once.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // The agents send pings, too. Without this setting, their pings would end the connection
  // (too_many_pings).
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
}

absl::Status CannotListen(const std::string& address, const absl::Status& why) {
  return absl::Status(why.code(), absl::StrCat("cannot listen on ", address, ": ", why.message()));
}

absl::StatusOr<std::vector<RecordedJob>> LoadJobs(Store* store, const JobLog& log) {
  if (store == nullptr) return std::vector<RecordedJob>();
  const auto stored = store->Load();
  if (!stored.ok()) return stored.status();
  std::vector<RecordedJob> jobs;
  for (const auto& [key, value] : *stored) {
    std::optional<std::string> name = wire::JobOfKey(key);
    if (!name) continue;  // the key is of a later version
    auto record = wire::DecodeRecord(value);
    if (!record.ok()) {  // it stays in the store, and the other jobs are served
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

struct RendezvousServer::GrpcServer {
  GrpcServer(std::size_t sessions_per_thread, SlowCalls::Limits limits, RefusalCounters* refusals)
      : slow(&tasks, refusals, limits), queues(sessions_per_thread) {}

  // `slow`, `tasks` and `queues` outlive `server`. The destructor of `queues` waits for all calls.
  // After that, a task of `tasks` can at most still give back its place in `slow`.
  SlowCalls slow;
  TaskQueue tasks{"ddprun-slow", kSlowTaskThreads};
  CallQueues queues;
  // Passes the connections that the Acceptor accepts to gRPC.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections;
  std::unique_ptr<grpc::Server> server;
};

RendezvousServer::RendezvousServer(Options options)
    : options_(std::move(options)),
      started_(std::chrono::steady_clock::now()),
      descriptors_(std::make_unique<DescriptorGuard>(options_.descriptor_limit)) {}

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(Options options) {
  auto server = Create(std::move(options));
  if (!server.ok()) return server;
  if (absl::Status served = (*server)->Serve(); !served.ok()) return served;
  return server;
}

absl::StatusOr<std::unique_ptr<RendezvousServer>> RendezvousServer::Create(Options options) {
  const absl::StatusOr<ListenAddress> address = ParseListenAddress(options.listen);
  if (!address.ok()) return CannotListen(options.listen, address.status());
  absl::StatusOr<std::vector<RecordedJob>> recorded{std::vector<RecordedJob>()};
  if (options.validity == nullptr) {
    // Loads before it listens: otherwise a client could connect, and would wait while a long
    // journal is read.
    recorded = LoadJobs(options.store.get(), options.log);
    if (!recorded.ok()) return recorded.status();
  }
  auto acceptor = Acceptor::Bind(*address);
  if (!acceptor.ok()) return CannotListen(options.listen, acceptor.status());
  std::unique_ptr<RendezvousServer> server(new RendezvousServer(std::move(options)));
  server->acceptor_ = *std::move(acceptor);
  server->MakeAccessControl();
  server->MakeLoop(*recorded);
  return server;
}

absl::Status RendezvousServer::Serve() {
  MakeServices();
  if (absl::Status started = StartGrpc(); !started.ok()) {
    return CannotListen(options_.listen, started);
  }
  StartAccepting();
  return absl::OkStatus();
}

absl::Status RendezvousServer::Lead(const Term& term, Duration hold, bool restored) {
  const TimePoint leases_from = std::chrono::steady_clock::now() + hold;
  auto recorded = LoadJobs(store_.get(), options_.log);
  if (!recorded.ok()) return recorded.status();
  loop_->Lead({term, leases_from, restored}, *std::move(recorded));
  return absl::OkStatus();
}

void RendezvousServer::ChangeTerm(const Term& term) { loop_->ChangeTerm(term); }

void RendezvousServer::OnValidity() { loop_->OnValidity(); }

void RendezvousServer::SetLeader(std::string endpoint) { loop_->SetLeader(std::move(endpoint)); }

int RendezvousServer::port() const { return acceptor_->port(); }

int RendezvousServer::listener() const { return acceptor_->listener(); }

void RendezvousServer::MakeAccessControl() {
  const auto& credentials = options_.credentials;
  access_ = std::make_shared<AccessControl>(
      credentials == nullptr ? nullptr : credentials->authenticator,
      options_.max_streams_per_address,
      [log = options_.log](const std::string& text) { log("", text); });
  auth::OnTlsHandshakeFailed([access = std::weak_ptr(access_)](const std::string& reason) {
    const auto alive = access.lock();
    if (alive == nullptr) return;
    alive->refusals().Count(refusal::kTlsHandshake, absl::StrCat("a connection: TLS: ", reason));
  });
}

void RendezvousServer::MakeLoop(const std::vector<RecordedJob>& recorded) {
  store_ = std::move(options_.store);
  JobLoopOptions loop;
  loop.machine = options_.machine;
  std::random_device random;
  loop.machine.seed = std::uint64_t{random()} << 32 | random();
  loop.time_to_join = options_.time_to_join;
  loop.kept_log_bytes = options_.kept_log_bytes;
  loop.log = options_.log;
  loop.store = store_.get();
  loop.validity = options_.validity;
  loop.secret_key = options_.secret_key.empty() ? auth::RandomBytes(32) : options_.secret_key;
  loop.lost_right = options_.lost_right;
  loop.load = [this](const JobLoopLoad& load) {
    {
      const std::lock_guard lock(load_mutex_);
      load_ = load;
    }
    if (options_.load) options_.load(load);
  };
  if (options_.events != nullptr) {
    loop.events = [events = options_.events](std::string_view job, std::string_view owner,
                                             std::uint32_t requeue_number, const JobEvent& event) {
      events->Add(job, owner, requeue_number, event);
    };
  }
  loop_ = std::make_shared<JobLoop>(std::move(loop), recorded);
}

void RendezvousServer::MakeServices() {
  agent_service_ =
      std::make_unique<AgentService>(loop_, access_, descriptors_.get(), options_.board);
  if (options_.events == nullptr) return;
  operator_service_ = std::make_unique<OperatorService>(OperatorService::Options{
      loop_, options_.events, [this] { return Describe(); },
      [access = access_](const grpc::ServerContextBase& context,
                         std::string_view method) -> absl::StatusOr<std::string> {
        absl::StatusOr<auth::Principal> principal = access->Check(context, method);
        // With MUNGE, root may see and end the jobs of all owners.
        if (principal.ok() && auth::MayAct(*principal, "")) return std::string();
        return principal;
      },
      [access = access_](const grpc::ServerContextBase& context, const char* counter,
                         const absl::Status& why) {
        access->refusals().Count(counter, absl::StrCat(context.peer(), ": ", why.message()));
      },
      options_.open_page});
}

absl::Status RendezvousServer::StartGrpc() {
  const std::shared_ptr<grpc::ServerCredentials> transport = options_.credentials == nullptr
                                                                 ? grpc::InsecureServerCredentials()
                                                                 : options_.credentials->transport;
  grpc::ServerBuilder builder;
  Configure(builder, /*is_unix=*/acceptor_->port() == 0);
  auto grpc_server = std::make_unique<GrpcServer>(
      options_.sessions_per_thread,
      SlowCalls::Limits{options_.max_slow_calls, options_.max_slow_calls_of_address},
      &access_->refusals());
  using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  grpc_server->connections =
      builder.experimental().AddExternalConnectionAcceptor(Type::FROM_FD, transport);
  grpc_server->queues.AddTo(builder);
  builder.RegisterService(agent_service_->service());
  if (operator_service_ != nullptr) builder.RegisterService(operator_service_->service());
  grpc_server->server = builder.BuildAndStart();
  if (grpc_server->server == nullptr) return absl::UnavailableError("gRPC refused it");
  grpc_server->queues.Start();
  agent_service_->Serve(&grpc_server->queues, &grpc_server->slow);
  if (operator_service_ != nullptr) {
    operator_service_->Serve(&grpc_server->queues, &grpc_server->tasks, &grpc_server->slow);
  }
  server_ = std::move(grpc_server);
  return absl::OkStatus();
}

void RendezvousServer::StartAccepting() {
  acceptor_->Start(
      descriptors_.get(),
      [connections = server_->connections.get()](int listener, UniqueFd connection) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
        parameters.listener_fd = listener;
        parameters.fd = connection.release();
        connections->HandleNewConnection(&parameters);
      },
      [log = options_.log](const std::string& text) { log("", text); });
}

DaemonStatus RendezvousServer::Describe() const {
  DaemonStatus status;
  status.version = options_.version;
  status.uptime = std::chrono::steady_clock::now() - started_;
  {
    const std::lock_guard lock(load_mutex_);
    status.sessions = load_.sessions;
    status.jobs_begun = load_.jobs_begun;
  }
  status.descriptors = descriptors_->InUse();
  status.descriptor_limit = descriptors_->session_limit();
  status.event_lines_dropped =
      options_.events == nullptr ? 0 : options_.events->dropped_from_file();
  status.refused = Refusals();
  if (options_.board != nullptr) status.leadership = options_.board->Describe();
  if (acceptor_->refused() > 0) {
    status.refused[refusal::kConnectionsWithoutDescriptors] = acceptor_->refused();
  }
  return status;
}

std::map<std::string, std::uint64_t> RendezvousServer::Refusals() const {
  return access_->refusals().Snapshot();
}

void RendezvousServer::CountRefusal(std::string_view reason, const std::string& detail) {
  access_->refusals().Count(reason, detail);
}

RendezvousServer::~RendezvousServer() { Shutdown(); }

void RendezvousServer::Shutdown() {
  acceptor_->Stop();
  loop_->Shutdown();
  if (options_.events != nullptr) options_.events->Close();
  if (options_.board != nullptr) options_.board->Shutdown();
  if (server_ == nullptr) return;
  // Waits for the sessions that the loop has closed, and cancels the remaining ones.
  server_->server->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
  server_->queues.Shutdown();
  server_.reset();
}

}  // namespace ddprun
