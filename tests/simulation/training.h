// The workers: processes that step together, write checkpoints, fail, and end.
#ifndef DDPRUN_TESTS_SIMULATION_TRAINING_H_
#define DDPRUN_TESTS_SIMULATION_TRAINING_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/supervisor.h"
#include "tests/simulation/in_place.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trained_state.h"
#include "worker/src/agent/parameter_watch.h"

namespace ddprun::sim {

struct World;
class Agent;

// What must be saved after a step.
struct Due {
  bool checkpoint = false;
  bool snapshot = false;
  bool last = false;
  bool any() const { return checkpoint || snapshot || last; }
};

// The shared state of the workers of one generation.
struct Group {
  int life = 0;
  std::uint32_t requeue_number = 0;
  Generation generation;
  int world_size = 0;
  int started = 0;
  int alive = 0;
  std::optional<RestorePlan> restore;
  std::int64_t step = 0;
  bool steps = false;   // all workers were present, and steps are made
  bool waits = false;   // the next step waits for a stuck worker
  bool broken = false;  // a worker failed
  bool save = false;    // a checkpoint was requested
  // The rest is only for workers that stay: each of them makes its steps by itself.
  Due due{};                                     // after the step that some workers have finished
  std::map<std::int64_t, StepRecord> records{};  // by step
  std::map<int, Agent*> agents{};                // by rank
};

// A process of a worker. If workers stay, it is a worker of several generations in turn.
struct TrainingProcess {
  std::optional<Assignment> told{};  // its newest assignment
  int generations = 0;               // number of generations in which it was a worker
  bool alive = true;
  ddp::internal::ParameterWatch watch{};  // the rule of the library for this process
};

struct Worker {
  int id = 0;
  int process = -1;
  Agent* agent = nullptr;
  Group* group = nullptr;
  Rank rank;
  LocalRank local_rank;
  bool alive = false;
  bool left = false;  // it has left its generation, and its agent does not know it yet
  int failed_checkpoints = 0;
  bool stuck = false;                   // in a system call that no signal interrupts
  std::optional<ExitStatus> ends_as{};  // how it ends as soon as it is not stuck
};

class Training {
 public:
  explicit Training(World* world);

  // Starts a worker in the waiting process `process`, or in a new one. Returns the worker's id.
  int Start(Agent* agent, const Supervisor::SpawnWorkers& spawn, std::uint32_t requeue_number,
            LocalRank local_rank, int life, std::optional<int> process);
  void Signal(int worker, int signo);
  // The machine loses power: the worker is gone, stuck or not.
  void PowerOff(int worker);
  void AskToSave(int worker);
  // The worker leaves its generation a little later, unless its body does not return.
  void AskToLeave(int worker);
  // The worker has left its generation. Returns its process, which waits for the next one.
  int Adopt(int worker);
  // Ends a waiting process by SIGKILL.
  void EndWaiting(int process) { processes_[process].alive = false; }
  // A random running worker fails.
  void FailOne();
  // A random running worker waits for a disk for `duration`. One of its peers may fail meanwhile.
  void StickOne(Time duration);

  const Worker& worker(int id) const { return workers_[id]; }
  TrainingProcess& process(int id) { return processes_[id]; }
  // nullptr: there was none.
  const Group* FindGroup(int life, std::uint32_t requeue_number, Generation generation) const;
  int AliveOf(const std::vector<int>& workers) const;
  // Ids, in the order of their start.
  const std::vector<int>& alive() const { return alive_; }
  // A checkpoint has the last step. Only for jobs that save checkpoints.
  bool complete() const;

  // ---- for InPlace ----
  // The worker ends, or ends so as soon as it is not stuck. `kind`: text for the trace; not empty:
  // because a peer is gone.
  void End(int worker, ExitStatus status, const std::string& kind);
  // The worker's training is complete.
  void EndWell(int worker);
  void Leave(int worker);
  // A member is gone; the other workers notice it.
  void Break(Group* group);
  // What must be saved after this step. Forgets a requested checkpoint.
  Due TakeDue(Group* group, std::int64_t step);
  // Saves the group's step. `state`: its contents; only for workers that stay.
  void Keep(const Group& group, const Due& due, const std::optional<WholeState>& state);
  void TellStep(const Worker& worker, std::int64_t step);

 private:
  Group* GroupOf(const Assignment& told, Generation generation, std::uint32_t requeue_number,
                 int life);
  void Unstick(int worker);
  void StepGroup(Group* group);
  // Saves in memory on each node (on some it fails), or on the disk of rank 0's host.
  void Save(const Group& group, Tier tier, const std::optional<WholeState>& state);

  World* const world_;                     // outlives this
  std::deque<Worker> workers_;             // by id
  std::deque<TrainingProcess> processes_;  // by id
  std::deque<Group> groups_;
  std::vector<int> alive_;
  std::int64_t durable_step_ = 0;
  InPlace in_place_;
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_TRAINING_H_
