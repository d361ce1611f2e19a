// All parts of one simulated run, and the links between them.
#ifndef DDPRUN_TESTS_SIMULATION_WORLD_H_
#define DDPRUN_TESTS_SIMULATION_WORLD_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/agent.h"
#include "tests/simulation/checker.h"
#include "tests/simulation/daemon.h"
#include "tests/simulation/etcd.h"
#include "tests/simulation/live_checker.h"
#include "tests/simulation/network.h"
#include "tests/simulation/plan.h"
#include "tests/simulation/random.h"
#include "tests/simulation/recorder.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/simulation.h"
#include "tests/simulation/training.h"

namespace ddprun::sim {

// The first number of Recorder::Event.
enum What : std::uint64_t {
  kToDaemon,
  kToAgent,
  kSessionOpened,
  kSessionLost,
  kMachineStepped,
  kWorkerStarted,
  kWorkerEnded,
  kFault,
  kAgentEnded,
  kDurable,
  kLeaderWritten,
};

struct Host {
  std::string name;
  Clock clock;
  bool powered = true;
  std::vector<SavedFile> disk;  // its checkpoints, the newest first
};

struct World {
  World(std::uint64_t seed, Bug bug, std::string* trace, Rendezvous rendezvous);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Host& AddHost();
  // Starts another process of an agent, with a new agent_id.
  Agent& StartAgent(int host, std::uint32_t requeue_number);
  // The newest live agent of a host, or nullptr.
  Agent* AgentOn(int host);

  // The agent's or the rendezvous' end of a session notices that the session is lost.
  void AgentEndLost(const SessionPtr& session, const char* why);
  void ServerEndLost(const SessionPtr& session);

  // The leader by etcd's leader key; the first rendezvous if there is no leader or no other one.
  Daemon& Leader();
  const Daemon& OfSession(const Session& session) const { return *daemons[session.daemon]; }

  // The checkpoints that this host sees.
  std::vector<SavedFile>& Disk(int host) { return hosts[plan.shared_disk ? 0 : host]->disk; }

  // The first violation ends the run.
  void Violation(const std::string& what);

  Random random;
  Random state_random;    // for the states on nodes
  Random disk_random;     // for checkpoints that fail
  Random stuck_random;    // for workers that SIGKILL does not end
  Random stay_random;     // for workers that leave a generation and stay, and their steps
  Random several_random;  // for several rendezvous and their etcd
  Random etcd_random;     // for an etcd that is emptied, restored or full
  const bool several;
  Plan plan;
  const Bug bug;
  Result result;
  Scheduler scheduler;
  Recorder recorder;
  std::vector<std::unique_ptr<Host>> hosts;
  Network network;
  Checker checker;
  LiveChecker live_checker;
  Etcd etcd;
  std::vector<std::unique_ptr<Daemon>> daemons;
  Training training;
  std::vector<std::unique_ptr<Agent>> agents;  // ended agents included
  std::uint32_t requeue_number = 0;            // of the newest agents
  int lives = 0;                               // the newest Daemon::life
  std::uint64_t writes = 0;                    // number of writes of the state to etcd
  bool healed = false;                         // the time of faults is over
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_WORLD_H_
