// How workers that continue in place make their steps and leave a generation: like the library in
// ddp::run_in_place(), with the library's own rules (ParameterWatch, RankPlaces, GeneratorsAtStep).
//
//   loads ──▶ computes ──▶ averages ──▶ in the optimizer's step ──▶ (saves) ──▶ computes ...
//     └───────────┴─────────────┴──── a collective fails ─────────────┘
//                                          │ waits for LEAVE, or has heard it
//                                          ▼
//                                     unwinds ──▶ makes a snapshot of its last step ──▶ has left
#ifndef DDPRUN_TESTS_SIMULATION_IN_PLACE_H_
#define DDPRUN_TESTS_SIMULATION_IN_PLACE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "rendezvous/core/saved_state.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trained_state.h"

namespace ddprun::sim {

struct World;
struct Group;
struct Worker;
class Training;

class InPlace {
 public:
  // Both outlive this.
  InPlace(World* world, Training* training) : world_(world), training_(training) {}

  // All workers of the group are present.
  void Begin(Group* group);
  // LEAVE=1.
  void AskToLeave(int worker);
  // A member ended or has left: the collectives of the others fail.
  void OnPeerGone(Group* group);
  // The worker is no longer stuck.
  void Resume(int worker);
  // The worker ended, or has left its generation.
  void OnGone(const Worker& worker);

 private:
  enum class Phase { kLoads, kComputes, kAverages, kOptimizer, kSaves, kWaits, kUnwinds };
  struct Trainee {
    Phase phase = Phase::kLoads;
    RankState state{};  // its parameters may already be partly those of the next step
    RankState next{};
    bool finished = false;        // it has finished a step of this generation
    std::vector<Digest> older{};  // all ranks' generators, from the last load or joint save
    bool asked = false;           // it was asked to leave
    bool in_time = true;          // false: another worker held the folder's lock for too long
    int turn = 0;                 // number of its newest task; older tasks are dropped
    std::function<void()> resume{};
  };

  const Worker& Of(int worker) const;
  std::vector<int> MembersOf(const Group& group) const;
  void Later(int worker, Time delay, std::function<void()> task);

  void Load(Group* group);
  // The rank from which the worker takes the state; nullopt: there is no state.
  std::optional<int> SourceFor(const Worker& worker) const;
  std::optional<WholeState> Read(const Group& group, int source, const SavedState& state) const;
  void StartWith(const Worker& worker, const WholeState& state);

  void Compute(int worker);
  void LeaveOwnState(int worker);
  void EnterAverage(int worker);
  void BeginOptimizer(int worker);
  void Finish(int worker);
  void SaveTogether(Group* group);
  WholeState FinishedByAll(const Group& group) const;

  // A collective of the worker fails.
  void Fail(int worker);
  void Unwind(int worker);
  std::optional<WholeState> Take(int worker) const;
  void AwaitTurn(int worker, const WholeState& state, Time until);
  void Publish(int worker, const WholeState& state);
  // Whether the worker's last step must survive when it leaves. Follows from what the worker has
  // done, and not from the library's answer.
  bool CanKeepItsStep(int worker) const;
  void Left(int worker);

  World* const world_;
  Training* const training_;
  std::map<int, Trainee> trainees_;  // by worker
  // The contents of each durable state, by requeue number, generation and step.
  std::map<std::tuple<std::uint32_t, int, std::int64_t>, WholeState> durable_;
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_IN_PLACE_H_
