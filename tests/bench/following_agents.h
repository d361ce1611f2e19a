// FollowingAgents: N simulated agents of one job in this process that follow several rendezvous
// like real agents (docs/ha.md). Each agent keeps a Follow call to every rendezvous, a session with
// the leader, and a waiting session with each waiting rendezvous: it sends nothing there until that
// rendezvous leads. It obeys no term below the highest that it has seen. The workers are simulated,
// and never fail.
//
// The program failover_agents runs them for tests/bench/failover_bench.py.
#ifndef DDPRUN_TESTS_BENCH_FOLLOWING_AGENTS_H_
#define DDPRUN_TESTS_BENCH_FOLLOWING_AGENTS_H_

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ddprun/v1/rendezvous.grpc.pb.h"
#include "rendezvous/auth/client_credentials.h"

namespace ddprun {

class FollowingAgent;

class FollowingAgents {
 public:
  struct Options {
    std::string job;
    std::vector<std::string> endpoints;
    int agents = 0;
    int channels = 0;  // to each endpoint; 0: one for each agent
    std::chrono::milliseconds heartbeat{500};
    std::chrono::milliseconds lease{3000};
    std::shared_ptr<const auth::ClientCredentials> credentials;  // null: no TLS and no token
  };
  // Gets each report as a line of JSON, with times of CLOCK_MONOTONIC in ns. Any thread, one call
  // at a time.
  using Tell = std::function<void(const std::string& line)>;

  // Connects, joins, and runs. Must not be destroyed: its threads run until the process ends.
  FollowingAgents(Options options, Tell tell);
  ~FollowingAgents();
  FollowingAgents(const FollowingAgents&) = delete;
  FollowingAgents& operator=(const FollowingAgents&) = delete;

 private:
  friend class FollowingAgent;
  // Used by one thread. A timer of gRPC costs as much as a message, so all agents of a queue share
  // one timer.
  class Timers {
   public:
    using Clock = std::chrono::steady_clock;

    void After(Clock::duration delay, std::function<void()> then) {
      due_.emplace(Clock::now() + delay, std::move(then));
    }
    // Calls the functions that are due.
    void Run();

   private:
    std::multimap<Clock::time_point, std::function<void()>> due_;
  };
  struct Queue {
    void Run();
    void Tick();  // now, and again soon

    grpc::CompletionQueue completions;
    Timers timers;
    grpc::Alarm alarm;
    std::thread thread;
  };

  // Agents call these, each on the thread of its queue.
  void OnFollowing(int change);               // number of Follow calls that have begun or ended
  void OnWaiting(int change);                 // the same for waiting sessions
  void OnStarted();                           // an agent's workers train
  void OnAcknowledged(std::uint64_t term);    // an agent's first acknowledgement of this term
  void OnDisturbed(const std::string& what);  // an agent's workers would have ended
  void TellIfSteady();                        // with mutex_ held

  const Options options_;
  std::vector<std::vector<std::unique_ptr<v1::Rendezvous::Stub>>> stubs_;  // [endpoint][channel]
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<std::unique_ptr<FollowingAgent>> agents_;

  std::mutex mutex_;  // guards what follows
  const Tell tell_;
  int following_ = 0;
  int waiting_ = 0;
  int started_ = 0;
  int disturbed_ = 0;
  std::map<std::uint64_t, std::vector<std::int64_t>> acknowledged_;  // times, by term
};

}  // namespace ddprun

#endif  // DDPRUN_TESTS_BENCH_FOLLOWING_AGENTS_H_
