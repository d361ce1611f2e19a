// The process of an agent with its guardian and its workers. It has the shipped Supervisor, and a
// client that connects again after each loss. The guardian outlives the agent.
#ifndef DDPRUN_TESTS_SIMULATION_AGENT_H_
#define DDPRUN_TESTS_SIMULATION_AGENT_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/node_states.h"
#include "launcher/core/standby_pool.h"
#include "launcher/core/supervisor.h"
#include "tests/simulation/network.h"
#include "tests/simulation/node_memory.h"
#include "tests/simulation/scheduler.h"

namespace ddprun::sim {

class Agent {
 public:
  Agent(World* world, int id, int host, std::uint32_t requeue_number, AgentId agent_id);

  int id() const { return id_; }
  int host() const { return host_; }
  bool alive() const { return alive_; }
  bool stalled() const { return stalled_; }
  AgentId agent_id() const { return agent_id_; }
  std::uint32_t requeue_number() const { return requeue_number_; }
  SupervisorState state() const { return supervisor_.state(); }
  const std::optional<Verdict>& verdict() const { return verdict_; }
  int verdict_life() const { return verdict_life_; }
  std::string Name() const;

  void Start();
  // SIGKILL: the guardian ends the workers, and may report to the rendezvous that the agent is
  // gone.
  void Kill();
  // The machine loses power: everything ends at once, and nothing is reported.
  void PowerOff();
  // SIGSTOP, and SIGCONT after `duration`.
  void Stall(Time duration);
  void Signal(int signo);

  // ---- from the network ----
  void OnOpened(int attempt, const SessionPtr& session);
  void OnRefused(int attempt, TimePoint started);
  void OnSessionLost(const SessionPtr& session, const char* why);
  // Rendezvous `number` reports that it leads.
  void OnLeader(int number, const Term& term);
  // `life`: the number of the job (Daemon::life) for which the rendezvous sent this.
  void OnMessage(const SessionPtr& session, const Header& header, const RendezvousMessage& message,
                 int life);

  // ---- from its workers ----
  void OnWorkerEnded(int worker, LocalRank local_rank, ExitStatus status,
                     const std::string& last_words);
  void OnWorkerStays(int worker, LocalRank local_rank);
  void OnWorkerLeft(int worker, LocalRank local_rank);
  void Feed(Supervisor::Event event);
  // A snapshot or checkpoint is complete: in memory, or at `path`.
  void OnSaved(LocalRank local_rank, const SavedState& state, const std::string& path);
  void OnFailedToSave(LocalRank local_rank, std::int64_t step, int failures);
  // The number of failed checkpoints that its workers have reported, also while the agent was not
  // alive.
  int failed_checkpoints() const { return failed_checkpoints_; }
  std::vector<SavedState> holds() const { return states_.List(); }
  NodeMemory& memory() { return memory_; }

 private:
  TimePoint Now() const;
  // Runs the task in the agent's loop; while the agent is stopped, the task waits.
  void Post(std::function<void()> task);
  void RunInbox();
  void Step(const Supervisor::Event& event);
  void PerformDecided();
  void Perform(const Supervisor::Action& action);
  void Transmit(const Header& header, AgentMessage message);
  void AfterTheDisk(Supervisor::Event event);
  void Scan();
  void Perform(const Supervisor::SpawnWorkers& spawn);
  void Perform(const Supervisor::AskWorkersToLeave& ask);
  void Perform(const Supervisor::SetFence& fence);
  void FillIn(AgentMessage* message);  // the states that this node holds
  void Exit(const Verdict& verdict);
  void ScheduleTick();

  void ReportGone(int number);
  Time ThirdOfLease() const;
  void Connect();
  void Syn(int attempt, TimePoint started);
  void AttemptFailed(int attempt, Supervisor::SessionLost lost);
  void CloseSession();
  // Asks every rendezvous once a second whether it leads. A rendezvous also reports this by itself,
  // but such a report may be lost.
  void AskWhoLeads();

  // A process that the guardian has forked.
  struct Process {
    int worker = -1;                // its worker id in Training; −1: its program does not run
    bool known = false;             // the result of its exec is known
    int signalled = 0;              // a signal that came before the result, and ends the process
    bool leaves = false;            // asked to leave its generation, and not signalled since
    std::optional<int> survivor{};  // the waiting process of Training that becomes this worker
    bool given_up = false;
  };
  using ProcessPtr = std::shared_ptr<Process>;
  static int PidOf(const Process& process) { return 100 + process.worker; }
  void StopStarting();
  void OnExecuted(const ProcessPtr& process, LocalRank local_rank,
                  const Supervisor::SpawnWorkers& spawn, int life);
  void Signal(const ProcessPtr& process, int signo);
  // Feeds an event of this process, unless the agent has given the process up.
  void FeedOf(const ProcessPtr& process, Supervisor::Event event);
  // Whether `worker` is the newest worker of this local rank.
  bool IsIn(LocalRank local_rank, int worker) const;
  // Does not count workers that are stuck: nobody can end them.
  bool AnyLeft() const;
  bool AnyStuck() const;
  // The answer to ClearNode: the stuck processes. Gives up every process.
  Supervisor::NodeCleared Clear();
  void EndWorkers();  // by the guardian
  void LoseWorkers();
  // ---- workers that have left a generation and wait for the next one ----
  void LetStay(const ProcessPtr& process, LocalRank local_rank);
  // The process in Training that waits for this local rank; nullopt: there is none.
  std::optional<int> TakeSurvivor(LocalRank local_rank);
  void EndStandbys();
  void EndWaiting();  // by the guardian, or with the machine

  World* const world_;  // outlives this
  const int id_;
  const int host_;
  const std::uint32_t requeue_number_;
  const AgentId agent_id_;
  bool alive_ = true;
  bool stalled_ = false;
  int stalls_ = 0;
  std::deque<std::function<void()>> inbox_;
  Supervisor supervisor_;
  bool performing_ = false;
  Time tick_at_ = -1;
  int failed_checkpoints_ = 0;
  std::optional<Verdict> verdict_;
  int verdict_life_ = 0;
  NodeStates states_;
  // Number of the newest scan. A start of workers adds 1, so that an older answer is dropped.
  int scan_ = 0;

  // The client.
  SessionPtr session_;  // open, or nullptr
  int attempt_ = 0;
  bool attempting_ = false;
  Time backoff_ = 0;
  int target_ = 0;      // number of the rendezvous that it connects to
  Term leader_;         // the highest known term
  Term obeyed_;         // the highest term of a message
  bool acted_ = false;  // an action other than a log line was performed
  Time attempt_limit_ = 10 * kSecond;

  std::vector<ProcessPtr> workers_;  // by local rank
  StandbyPool pool_{StandbyPool::Options{}};
  std::map<StandbyPool::Id, int> waiting_;  // by id in pool_: the waiting process in Training
  NodeMemory memory_;
  int life_ = 0;  // Daemon::life of the newest assignment that the Supervisor took
  struct Offer {
    Generation generation{-1};
    int life = 0;
  };
  Offer offered_;  // the newest assignment that arrived

  // The guardian.
  std::optional<TimePoint> fence_;
  int fences_set_ = 0;
  Time disk_free_at_ = 0;  // when the disk has answered everything that the agent asked so far
  bool fenced_ = false;    // the fence was reached, and no later fence is set
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_AGENT_H_
