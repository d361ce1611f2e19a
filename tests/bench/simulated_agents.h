// SimulatedAgents: N agents of one job in this process, over real gRPC. The benchmarks load a
// server with them.
//
// They speak proto/ddprun/v1/rendezvous.proto and run no workers. An agent answers a message only
// on request of the benchmark, so that each step of the protocol can be timed alone. There are two
// exceptions. It sends one heartbeat in each period, unless it has sent another message in the last
// half of a period. After AnswerTakeStacks() it answers TakeStacks. If the credentials need a
// Handshake, an agent makes one before its session, and checks the server's proof.
#ifndef DDPRUN_TESTS_BENCH_SIMULATED_AGENTS_H_
#define DDPRUN_TESTS_BENCH_SIMULATED_AGENTS_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/auth/client_credentials.h"

namespace ddprun {

using BenchClock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

class SimulatedAgents;

class SimulatedAgent {
 public:
  SimulatedAgent(SimulatedAgents* owner, v1::Header header);

  // Authenticates, opens the session, and sends `join` when the session is accepted. gRPC's events
  // come in `queue`.
  void Open(v1::Rendezvous::Stub* stub, grpc::CompletionQueue* queue, v1::AgentMessage join);
  // Sends `message` under the agent's newest header. Any thread, after Open.
  void Send(v1::AgentMessage message);
  // Sends a heartbeat if nothing was sent since `before` and no write is under way. The owner
  // decides what the heartbeat contains.
  void SendHeartbeat(BenchClock::time_point before);
  void Close();

  BenchClock::time_point answered{};  // when the last expected message came
  int first_rank = 0;                 // of the last Assignment

 private:
  friend class SimulatedAgents;
  // The tag of a gRPC operation.
  struct Tag {
    SimulatedAgent* agent;
    void (SimulatedAgent::*done)(bool ok);
  };

  void OnHandshakeDone(bool ok);
  void StartSession();
  void OnAccepted(bool ok);
  void OnReadDone(bool ok);
  void OnWriteDone(bool ok);
  void OnWritesDone(bool) {}
  void OnFinished(bool ok);
  void SendLocked(v1::AgentMessage message);

  // Made before the session if the credentials need it.
  struct Handshake {
    grpc::ClientContext context;
    v1::HandshakeRequest request;
    v1::HandshakeReply reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::HandshakeReply>> call;
    Tag done{};
  };

  SimulatedAgents* const owner_;
  std::unique_ptr<Handshake> handshake_;    // null: none, or it is over
  v1::Rendezvous::Stub* stub_ = nullptr;    // outlives the agent
  grpc::CompletionQueue* queue_ = nullptr;  // the same
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<v1::AgentMessage, v1::RendezvousMessage>> stream_;
  v1::RendezvousMessage incoming_;
  grpc::Status status_;
  v1::AgentMessage join_;  // until the server has accepted the session
  int heard_ = 0;          // how many of start_ and accept_ have come
  Tag start_{this, &SimulatedAgent::OnAccepted};
  Tag accept_{this, &SimulatedAgent::OnAccepted};
  Tag read_{this, &SimulatedAgent::OnReadDone};
  Tag write_{this, &SimulatedAgent::OnWriteDone};
  Tag writes_done_{this, &SimulatedAgent::OnWritesDone};
  Tag finish_{this, &SimulatedAgent::OnFinished};

  std::mutex mutex_;  // guards what follows
  v1::Header header_;
  std::vector<v1::AgentMessage> waiting_;  // for the end of a write
  bool writing_ = false;
  bool closed_ = false;  // by this agent or by the server
  bool over_ = false;    // ended by the server: no operation may be started
  BenchClock::time_point sent_{};
};

class SimulatedAgents {
 public:
  struct Options {
    std::string job;
    int agents = 0;
    int workers = 1;  // of each agent
    int max_restarts = 1000000;
    std::chrono::milliseconds heartbeat = std::chrono::seconds(1);
    std::chrono::milliseconds lease{0};         // 0: three heartbeats
    std::chrono::milliseconds hang_timeout{0};  // 0: the default
    // Must outlive the agents. Null: no TLS and no token.
    const auth::ClientCredentials* credentials = nullptr;
  };
  // The content of heartbeats.
  enum class Tells {
    kNothing,     // that the agent lives
    kStep,        // and a step
    kProgress,    // and that the workers move
    kStandstill,  // and that no worker has moved since Tell() was called
  };
  // A hang, as the agents observed it.
  struct Verdict {
    BenchClock::time_point asked;    // the first agent was asked for stacks
    BenchClock::time_point decided;  // the first agent was told the verdict
    BenchClock::time_point told;     // the last agent was told the verdict
    v1::HangStacks stacks;           // as the first agent received them
    bool moves_again = false;        // true: agents were told so, which is wrong
  };
  struct HeartbeatTime {
    BenchClock::time_point sent;
    BenchClock::time_point answered;
  };
  // The time from the start of a step until each agent had its answer, sorted.
  struct Step {
    std::vector<double> latencies_ms;
    double at(double quantile) const {
      return latencies_ms[static_cast<std::size_t>(
          quantile * static_cast<double>(latencies_ms.size() - 1) + 0.5)];
    }
  };

  // The first channel carries the first agents, and so on.
  SimulatedAgents(Options options, const std::vector<std::shared_ptr<grpc::Channel>>& channels);
  // Ends the sessions, and waits until they have ended.
  ~SimulatedAgents();
  SimulatedAgents(const SimulatedAgents&) = delete;
  SimulatedAgents& operator=(const SimulatedAgents&) = delete;

  // Each returns when every agent has its answer. Ends the program with a message if that takes two
  // minutes, or if a session ends.
  Step JoinAll();     // Join → Assignment
  Step PrepareAll();  // AssignmentAck → Start
  Step FailOne();     // WorkerExited of one agent → Stop to all
  Step DrainAll();    // Stopped → Assignment
  void FinishAll();   // WorkerExited with code 0 from all → Finished to all

  // Sends only heartbeats for this time.
  void Idle(std::chrono::milliseconds duration);

  // From now on, heartbeats have this content.
  void Tell(Tells tells);
  // From now on each agent answers TakeStacks with what `make` returns for its first rank. Several
  // threads call `make` at once. Call AnswerTakeStacks at most once, and before AwaitVerdict().
  void AnswerTakeStacks(std::function<v1::StackTree(int first_rank)> make);
  // Returns when every agent has received the verdict. Call it before the verdict can come.
  Verdict AwaitVerdict();
  // The round trips of the heartbeats answered since the last call.
  std::vector<HeartbeatTime> TakeHeartbeatTimes();

  // Sizes on the wire of the last messages of each kind.
  std::size_t assignment_bytes() const { return assignment_bytes_; }
  std::size_t start_bytes() const { return start_bytes_; }
  std::size_t stop_bytes() const { return stop_bytes_; }
  std::uint64_t messages_received() const { return received_; }

 private:
  friend class SimulatedAgent;
  using Body = v1::RendezvousMessage::BodyCase;

  Step Run(Body expected, const std::function<void()>& start);
  void OnMessage(SimulatedAgent* agent, const v1::RendezvousMessage& message);
  void OnTakeStacks(SimulatedAgent* agent, std::uint64_t request);
  void OnVerdict(const v1::HangStacks& stacks);
  void OnHeartbeatAck(std::int64_t sent_at);
  void OnDone(const grpc::Status& status);
  void Beat();
  void Fill(v1::Heartbeat* heartbeat) const;

  // gRPC's callback API has one completion queue per process, and the cost of a message grows with
  // the queue's calls (rendezvous/service/call_queues.h). The benchmarks must not measure that, so
  // the agents have queues of their own.
  static constexpr std::size_t kAgentsPerQueue = 1024;
  static constexpr std::size_t kMostQueues = 16;
  struct Queue {
    grpc::CompletionQueue completions;
    std::thread thread;
  };

  const Options options_;
  std::vector<std::unique_ptr<Queue>> queues_;  // each for some channels
  std::vector<std::unique_ptr<v1::Rendezvous::Stub>> stubs_;
  std::vector<std::unique_ptr<SimulatedAgent>> agents_;
  std::atomic<std::size_t> opened_ = 0;
  std::atomic<std::size_t> assignment_bytes_ = 0;
  std::atomic<std::size_t> start_bytes_ = 0;
  std::atomic<std::size_t> stop_bytes_ = 0;
  std::atomic<std::uint64_t> received_ = 0;

  std::atomic<Body> expected_{v1::RendezvousMessage::BODY_NOT_SET};
  std::atomic<std::size_t> missing_ = 0;  // agents that have not received it
  std::atomic<bool> ending_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;  // missing_ became 0, open_ became 0, or ending_
  std::size_t open_ = 0;             // sessions; guarded by mutex_

  std::atomic<Tells> tells_{Tells::kNothing};
  std::atomic<bool> moves_again_ = false;  // some agent was told so
  std::atomic<BenchClock::time_point> still_since_{};
  std::function<v1::StackTree(int first_rank)> make_stacks_;

  std::mutex seen_mutex_;  // guards what follows
  std::optional<BenchClock::time_point> asked_;
  std::optional<BenchClock::time_point> decided_;
  v1::HangStacks stacks_;
  std::vector<HeartbeatTime> heartbeat_times_;

  std::thread heart_;
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_BENCH_SIMULATED_AGENTS_H_
