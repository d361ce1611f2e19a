// The process of the rendezvous: the shipped JobMachine, with a journal whose writes take time,
// sessions as rendezvous/service keeps them, kills, restarts and pauses.
#ifndef DDPRUN_TESTS_SIMULATION_DAEMON_H_
#define DDPRUN_TESTS_SIMULATION_DAEMON_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/machine/job_machine.h"
#include "tests/simulation/contender.h"
#include "tests/simulation/network.h"
#include "tests/simulation/random.h"
#include "tests/simulation/scheduler.h"
#include "tests/support/stacks_at_once.h"

namespace ddprun::sim {

class Daemon {
 public:
  // `number`: its number among several rendezvous; a single one has 0. `random` sets its clock.
  Daemon(World* world, int number, Random* random);

  bool up() const { return up_; }
  bool stalled() const { return stalled_; }
  bool refuses() const { return refuses_; }  // while it is down: its machine refuses connections
  int boot() const { return boot_; }
  // Number of the job. A job that begins without a record, or a restore of etcd, makes a new
  // number.
  int life() const { return life_; }
  const JobMachine* machine() const { return machine_.get(); }
  TimePoint Now() const;
  Time TrueTime(TimePoint local) const { return clock_.True(local); }
  // nullptr: it is the only rendezvous.
  Contender* contender() const { return contender_.get(); }
  // Agents may have sessions with it.
  bool serves() const { return up_ && (contender_ == nullptr || contender_->leads()); }

  // The process begins. `ousted`: as for Contender::Begin().
  void Boot() { Boot(0); }
  void Boot(int ousted);
  // SIGKILL. `refuses`: its machine stays up and refuses connections.
  void Kill(bool refuses);
  void Stall(Time duration);
  // Runs the task in the daemon. While the daemon is stopped, the task waits; a kill drops it.
  void Post(std::function<void()> task);

  void OnMessage(const SessionPtr& session, Header header, AgentMessage message);
  // The daemon's end of the session is lost.
  void OnEnd(const SessionPtr& session);
  void OnAgentGone(AgentId agent_id);
  void Ask(const JobMachine::Event& event);  // an operator's command

  // ---- from its Contender ----
  // It leads. `stored`: the state in etcd; nullptr: there is none. The others: JobMachineOptions.
  void Lead(const Etcd::Stored* stored, TimePoint leases_from, bool restored);
  // Its validity was extended: runs the effects that wait for it.
  void OnValidity();
  void ExecuteAgain(int ousted);
  void End();

 private:
  using Effect = std::function<void()>;
  struct Write {
    JobRecord record;
    int life = 0;
    bool durable = false;
    std::deque<Effect> held;  // effects that must not be visible before the write is durable
  };

  void TakeUp(const JobRecord& record, int life);
  void CloseSessions(bool refuses);
  void Step(const JobMachine::Event& event);
  // Whether its decisions count: no other rendezvous has taken over.
  bool Decides() const;
  void Perform(const JobMachine::Action& action);
  void Persist(const JobRecord& record);
  void PersistOnEtcd(const std::shared_ptr<Write>& write);
  void Send(const JobMachine::Send& send);
  // Runs the effect now, or when the rendezvous may speak again (Contender::MaySpeak).
  void Speak(Effect effect);
  void SendNow(const Header& header, const RendezvousMessage& message, int life);
  void ScheduleTick();
  // The agent_id, as the planted bugs change it.
  AgentId Seen(const SessionPtr& session, AgentId agent_id);

  World* const world_;  // outlives this
  const int number_;
  Clock clock_;
  std::unique_ptr<Contender> contender_;
  bool up_ = false;
  bool refuses_ = true;
  bool stalled_ = false;
  int boot_ = 0;
  int life_ = 0;
  std::deque<std::function<void()>> inbox_;  // while stalled
  JobMachineOptions options_;
  std::unique_ptr<JobMachine> machine_;
  StacksAtOnce stacks_;
  std::map<std::uint64_t, SessionPtr> streams_;  // by agent_id, as in rendezvous/service
  std::optional<JobRecord> durable_;
  int durable_life_ = 0;
  std::deque<std::shared_ptr<Write>> writes_;       // not durable yet, oldest first
  std::deque<Effect> kept_back_;                    // effects that wait for its validity
  Time tick_at_ = -1;                               // the next tick; −1: none
  std::map<std::uint64_t, AgentId> first_on_host_;  // for Bug::kNoAgentIdCheck
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_DAEMON_H_
