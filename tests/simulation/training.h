// The workers: processes that step together, write checkpoints, fail, and end.
#ifndef DDPRUN_TESTS_SIMULATION_TRAINING_H_
#define DDPRUN_TESTS_SIMULATION_TRAINING_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/supervisor.h"
#include "tests/simulation/scheduler.h"

namespace ddprun::sim {

struct World;
class Agent;

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
};

struct Worker {
  int id = 0;
  Agent* agent = nullptr;
  Group* group = nullptr;
  Rank rank;
  LocalRank local_rank;
  bool alive = false;
  int failed_checkpoints = 0;
  bool stuck = false;                   // in a system call that no signal interrupts
  std::optional<ExitStatus> ends_as{};  // when it is stuck no longer
};

class Training {
 public:
  explicit Training(World* world);

  // A worker runs from now on. Returns its id.
  int Start(Agent* agent, const Supervisor::SpawnWorkers& spawn, std::uint32_t requeue_number,
            LocalRank local_rank, int life);
  void Signal(int worker, int signo);
  // Its machine is off: it is gone, stuck or not.
  void PowerOff(int worker);
  void AskToSave(int worker);
  // It leaves its generation a little later, unless its body does not return.
  void AskToLeave(int worker);
  // One of those that run fails by itself.
  void FailOne();
  // One of those that run waits for a disk, for so long, and a peer of it may fail meanwhile.
  void StickOne(Time duration);

  const Worker& worker(int id) const { return workers_[id]; }
  int AliveOf(const std::vector<int>& workers) const;
  // Ids, in the order of their start.
  const std::vector<int>& alive() const { return alive_; }
  bool complete() const;  // every step was made, and is in a checkpoint if there are any

 private:
  void End(int worker, ExitStatus status, const std::string& kind);
  void Leave(int worker);
  void Unstick(int worker);
  void Break(Group* group);
  void StepGroup(Group* group);
  void FailToSave(int worker);
  // This step is to be kept: in memory, or on the disk of rank 0.
  void Save(const Group& group, Tier tier);

  World* const world_;          // outlives this
  std::deque<Worker> workers_;  // by id
  std::deque<Group> groups_;
  std::vector<int> alive_;
  std::int64_t durable_step_ = 0;
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_TRAINING_H_
