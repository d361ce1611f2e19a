// RendezvousServer: the rendezvous as a gRPC server in this process, with threads of its own.
//
//     absl::StatusOr<std::unique_ptr<RendezvousServer>> server = RendezvousServer::Start(
//         {.listen = "127.0.0.1:0", .machine = {}, .log = log});
//     if (!server.ok()) ...  // "cannot listen on 127.0.0.1:29400: address already in use"
//     (*server)->port();
#ifndef DDPRUN_RENDEZVOUS_SERVICE_RENDEZVOUS_SERVER_H_
#define DDPRUN_RENDEZVOUS_SERVICE_RENDEZVOUS_SERVER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rendezvous/core/term.h"
#include "rendezvous/core/types.h"
#include "rendezvous/machine/job_machine.h"
#include "rendezvous/service/job/job_loop.h"
#include "rendezvous/service/leadership/validity.h"
#include "rendezvous/service/operators/page_link.h"
#include "rendezvous/store/store.h"
#include "rendezvous/wire/limits.h"

namespace ddprun {
namespace auth {
struct ServerCredentials;
}
class AccessControl;
class AgentService;
class DescriptorGuard;
class EventLog;
class LeaderBoard;
class OperatorService;
class Acceptor;
struct DaemonStatus;

class RendezvousServer {
 public:
  struct Options {
    // "HOST:PORT" (port 0: any free one), "[IPV6]:PORT" or "unix:/path". The socket of a path has
    // mode 0600, and is removed at the end.
    std::string listen;
    JobMachineOptions machine{};
    JobLog log{};
    LoadObserver load{};  // may be empty
    // What is asked of callers (rendezvous/auth/server_credentials.h); null: nothing.
    std::shared_ptr<const auth::ServerCredentials> credentials{};
    std::size_t max_streams_per_address = wire::kMaxStreamsPerAddress;
    // So many calls may wait for MUNGE or for an operator's answer, in all and from one address.
    std::size_t max_slow_calls = 4096;
    std::size_t max_slow_calls_of_address = 1024;
    std::chrono::milliseconds time_to_join = wire::kMaxTimeToJoin;
    // The history of the jobs; null: there is none, and operators are not served.
    std::shared_ptr<EventLog> events{};
    std::size_t kept_log_bytes = 32 << 20;  // as in JobLoopOptions
    std::string version{};                  // of the program, for operators
    // A link to the page, for an operator who may see the jobs of `owner`. Any thread; may be
    // empty.
    std::function<PageLink(const std::string& owner)> open_page{};
    int descriptor_limit = 0;  // 0: RLIMIT_NOFILE; see DescriptorGuard
    // For so many calls there is a thread that serves them, up to a number (CallQueues).
    std::size_t sessions_per_thread = 1200;
    // What outlives this process; nullptr: nothing does. Loaded by Create, or by Lead; the server
    // owns it.
    std::shared_ptr<Store> store{};
    // Not null: this rendezvous is one of several that share the store. It takes no session and has
    // no job until Lead, and then speaks while this holds. Not owned; outlives the server.
    const Validity* validity = nullptr;
    // The store has lost the right to write: no agent is acknowledged any more, and the server is
    // of no use. Called once, by a thread of the server; must not block. May be empty.
    std::function<void()> lost_right{};
    // What the secrets of generations are made from; "": a random one, of this process.
    std::string secret_key{};
    // Who leads, where this is one of several; null: it is alone. The server ends its followers.
    std::shared_ptr<LeaderBoard> board{};
  };

  // Create and Serve: returns when connections are accepted.
  static absl::StatusOr<std::unique_ptr<RendezvousServer>> Start(Options options);

  // Listens, but accepts no connection yet, and has no part of gRPC, whose start takes longer than
  // all else. The loop runs. Errors: InvalidArgument for a malformed address,
  // AlreadyExists when it is taken, Unavailable otherwise; each says which address and why. Those
  // of the store's Load, and DataLoss for a record in it that cannot be one.
  static absl::StatusOr<std::unique_ptr<RendezvousServer>> Create(Options options);
  // Accepts connections from now on. Once; from any thread, and not beside Shutdown. Error:
  // Unavailable.
  absl::Status Serve();

  // One of several. Takes up the jobs in the store, and serves them from now on. Once. No lease of
  // a member ends before `hold` from the call + the job's lease. `restored`: agents may run what
  // the store does not have, so no group forms before that. Blocks while the store is read; errors
  // are those of its Load, and another call may follow them.
  absl::Status Lead(const Term& term, Duration hold, bool restored = false);
  // The next three return at once. The term of all messages from now on, later than the one before.
  void ChangeTerm(const Term& term);
  // To be called whenever validity was prolonged after it had ended: what was kept back is sent.
  void OnValidity();
  // Where another one leads, for those that are refused meanwhile; "": not known.
  void SetLeader(std::string endpoint);

  // Shuts down.
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  // For operators' questions; lives as long as the server.
  JobLoop& loop() { return *loop_; }

  // What it is and how it does, for operators. Any thread.
  DaemonStatus Describe() const;

  // The TCP port, 0 for a Unix socket.
  int port() const;
  // A socket that listens, until Shutdown. Before Serve it is readable once somebody connects.
  int listener() const;

  // How often what was refused, since the start (rendezvous/auth/refusal_counters.h). Any thread.
  std::map<std::string, std::uint64_t> Refusals() const;

  // Writes what the jobs have sent, ends every session, and returns when no thread of the server
  // runs any more: after at most about one second, when an agent does not read. Idempotent; not
  // from the log callback.
  void Shutdown();

 private:
  struct GrpcServer;  // keeps gRPC out of this header

  explicit RendezvousServer(Options options);
  // The steps of Create and Serve, in their order.
  void MakeAccessControl();
  void MakeLoop(const std::vector<RecordedJob>& recorded);
  void MakeServices();
  absl::Status StartGrpc();
  void StartAccepting();

  Options options_;  // without the store; does not change after Create
  const std::chrono::steady_clock::time_point started_;
  std::unique_ptr<DescriptorGuard> descriptors_;
  std::unique_ptr<Acceptor> acceptor_;
  mutable std::mutex load_mutex_;
  JobLoopLoad load_;  // guarded by load_mutex_
  std::shared_ptr<JobLoop> loop_;
  // Ends first, once the loop asks it for nothing more: until then it tells the loop what is
  // written.
  std::shared_ptr<Store> store_;
  std::shared_ptr<AccessControl> access_;
  std::unique_ptr<AgentService> agent_service_;
  std::unique_ptr<OperatorService> operator_service_;  // null without events
  std::unique_ptr<GrpcServer> server_;                 // from Serve
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_RENDEZVOUS_SERVER_H_
