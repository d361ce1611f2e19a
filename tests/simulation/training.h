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

// What is to be kept after a step.
struct Due {
  bool checkpoint = false;
  bool snapshot = false;
  bool last = false;
  bool any() const { return checkpoint || snapshot || last; }
};

// What workers of one generation have in common.
struct Group {
  int life = 0;
  std::uint32_t requeue_number = 0;
  Generation generation;
  int world_size = 0;
  int started = 0;
  int alive = 0;
  std::optional<RestorePlan> restore;
  std::int64_t step = 0;
  bool steps = false;   // all were there, and it goes on
  bool waits = false;   // with its next step, for one that is stuck
  bool broken = false;  // one of them failed
  bool save = false;    // it was asked for a checkpoint
  // Of workers that stay: each makes its steps by itself.
  Due due{};                                     // after the step that is finished by some
  std::map<std::int64_t, StepRecord> records{};  // by step
  std::map<int, Agent*> agents{};                // by rank
};

// A process, which is a worker of one generation after the other where it stays.
struct TrainingProcess {
  std::optional<Assignment> told{};  // with which it became a worker last
  int generations = 0;               // in which it was one
  bool alive = true;
  ddp::internal::ParameterWatch watch{};  // its own
};

struct Worker {
  int id = 0;
  int process = -1;
  Agent* agent = nullptr;
  Group* group = nullptr;
  Rank rank;
  LocalRank local_rank;
  bool alive = false;
  bool left = false;  // its generation: its process waits for the next one
  int failed_checkpoints = 0;
  bool stuck = false;                   // in a system call that no signal interrupts
  std::optional<ExitStatus> ends_as{};  // when it is stuck no longer
};

class Training {
 public:
  explicit Training(World* world);

  // A worker runs from now on, in a process that has waited for it, or in a new one. Returns its
  // id.
  int Start(Agent* agent, const Supervisor::SpawnWorkers& spawn, std::uint32_t requeue_number,
            LocalRank local_rank, int life, std::optional<int> process);
  void Signal(int worker, int signo);
  // Its machine is off: it is gone, stuck or not.
  void PowerOff(int worker);
  void AskToSave(int worker);
  // It leaves its generation a little later, unless its body does not return.
  void AskToLeave(int worker);
  // It has left, and its process waits for the next generation. Returns that.
  int Adopt(int worker);
  // Such a process ends, by SIGKILL.
  void EndWaiting(int process) { processes_[process].alive = false; }
  // One of those that run fails by itself.
  void FailOne();
  // One of those that run waits for a disk, for so long, and a peer of it may fail meanwhile.
  void StickOne(Time duration);

  const Worker& worker(int id) const { return workers_[id]; }
  TrainingProcess& process(int id) { return processes_[id]; }
  // nullptr: there was none.
  const Group* FindGroup(int life, std::uint32_t requeue_number, Generation generation) const;
  int AliveOf(const std::vector<int>& workers) const;
  // Ids, in the order of their start.
  const std::vector<int>& alive() const { return alive_; }
  bool complete() const;  // every step was made, and is in a checkpoint if there are any

  // ---- for InPlace ----
  void End(int worker, ExitStatus status, const std::string& kind);
  // Its training is over.
  void EndWell(int worker);
  void Leave(int worker);
  // A member is gone: the others notice.
  void Break(Group* group);
  Due TakeDue(Group* group, std::int64_t step);
  // The step of the group is to be kept. `state`: what is in it, of workers that stay.
  void Keep(const Group& group, const Due& due, const std::optional<WholeState>& state);
  void TellStep(const Worker& worker, std::int64_t step);

 private:
  Group* GroupOf(const Assignment& told, Generation generation, std::uint32_t requeue_number,
                 int life);
  void Unstick(int worker);
  void StepGroup(Group* group);
  // In memory, or on the disk of rank 0.
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
