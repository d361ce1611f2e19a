// RendezvousServer: the rendezvous as a gRPC server in this process, with threads of its own.
//
//     absl::StatusOr<std::unique_ptr<RendezvousServer>> server = RendezvousServer::Start(
//         {.listen = "127.0.0.1:29400", .machine = {}, .log = log});
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
#include <string_view>
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
    JobLog log{};         // unlike JobLoop's: several threads may call it at the same time
    LoadObserver load{};  // may be empty
    // The credentials that callers need (rendezvous/auth/server_credentials.h); null: none.
    std::shared_ptr<const auth::ServerCredentials> credentials{};
    std::size_t max_streams_per_address = wire::kMaxStreamsPerAddress;
    // Limit of the calls in SlowCalls (calls that wait for MUNGE, and operators' calls): in all,
    // and from one address.
    std::size_t max_slow_calls = 4096;
    std::size_t max_slow_calls_of_address = 1024;
    std::chrono::milliseconds time_to_join = wire::kMaxTimeToJoin;
    // The history of the jobs; null: there is none, and operators are not served.
    std::shared_ptr<EventLog> events{};
    std::size_t kept_log_bytes = 32 << 20;  // as in JobLoopOptions
    std::string version{};                  // of the program, for operators
    // Makes a link to the page for an operator who is allowed to see the jobs of `owner`. Any
    // thread; may be empty.
    std::function<PageLink(const std::string& owner)> open_page{};
    int descriptor_limit = 0;  // 0: RLIMIT_NOFILE; see DescriptorGuard
    // The number of calls that one thread serves (CallQueues).
    std::size_t sessions_per_thread = 1200;
    // Keeps the job records; nullptr: in memory only. Loaded by Create, or by Lead; the server owns
    // it.
    std::shared_ptr<Store> store{};
    // Not null: this rendezvous is one of several that share the store. Until Lead it has no job
    // and takes only waiting sessions (AgentService: sessions of agents that wait for a leader).
    // After Lead it acts only while `validity` holds (until when this
    // leader may acknowledge agents and assign ranks). Not owned; outlives the server.
    const Validity* validity = nullptr;
    // The store has lost the right to write: the server acknowledges no agent any more, and must be
    // shut down. Called once, by a thread of the server; must not block. May be empty.
    std::function<void()> lost_right{};
    // The key from which the secrets of generations are derived; "": a random key of this process.
    std::string secret_key{};
    // For one of several: which rendezvous leads; null: it is alone. Shutdown ends the Follow calls
    // (they ask who leads) that the board serves.
    std::shared_ptr<LeaderBoard> board{};
  };

  // Calls Create and Serve. Returns when connections are accepted.
  static absl::StatusOr<std::unique_ptr<RendezvousServer>> Start(Options options);

  // Listens and runs the loop. Does not accept connections yet. Starting gRPC takes longest, so
  // Serve does it. Errors: InvalidArgument for a malformed address, AlreadyExists if the
  // address is taken, PermissionDenied if this process must not use the port, Unavailable
  // otherwise. Each names the address and the reason. Also the errors of the store's Load. A job
  // whose record is invalid is left out, and logged.
  static absl::StatusOr<std::unique_ptr<RendezvousServer>> Create(Options options);
  // Accepts connections from now on. Call it once, from any thread, but not at the same time as
  // Shutdown. Error: Unavailable.
  absl::Status Serve();

  // For one of several: continues the jobs in the store, and serves them from now on. Once. `term`
  // is the number of this takeover. No node's lease ends before the time of this call + `hold` +
  // the job's lease. `restored`: agents may run jobs or generations that the store does not have,
  // so no generation forms during this time either. Blocks while the store is read. Errors are
  // those of its Load; after an error it may be called again.
  absl::Status Lead(const Term& term, Duration hold, bool restored = false);
  // The next three functions return at once. ChangeTerm: all messages have `term` from now on.
  // `term` is later than the previous term.
  void ChangeTerm(const Term& term);
  // Call it whenever validity was prolonged after it had ended: sends the held messages.
  void OnValidity();
  // The endpoint of the rendezvous that leads instead, for refused callers; "": not known.
  void SetLeader(std::string endpoint);

  // Shuts down.
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  // For operators' questions; lives as long as the server.
  JobLoop& loop() { return *loop_; }

  // The status of the rendezvous, for operators. Any thread.
  DaemonStatus Describe() const;

  // The TCP port, 0 for a Unix socket.
  int port() const;
  // A listening socket, valid until Shutdown. Before Serve, it becomes readable when somebody
  // connects.
  int listener() const;

  // Refusals since the start, by reason (rendezvous/auth/refusal_counters.h). Any thread.
  std::map<std::string, std::uint64_t> Refusals() const;
  // Counts a refusal by another part of this rendezvous: its page. Any thread.
  void CountRefusal(std::string_view reason, const std::string& detail);

  // Writes the queued messages of the jobs, ends every session, and returns when no call is served
  // any more. Takes at most about one second, even if an agent does not read; longer only while
  // munged does not answer (auth/munge.h). Idempotent; not from the log callback.
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
  // Until it is destroyed, the store reports finished writes to loop_, so loop_ must outlive it.
  // After Shutdown the loop sends no more requests to the store.
  std::shared_ptr<Store> store_;
  std::shared_ptr<AccessControl> access_;
  std::unique_ptr<AgentService> agent_service_;
  std::unique_ptr<OperatorService> operator_service_;  // from Serve; null without events
  std::unique_ptr<GrpcServer> server_;                 // from Serve
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_SERVICE_RENDEZVOUS_SERVER_H_
