// How workers that stay make their steps, one by one, and leave a generation: as the library does
// with ddp::run_in_place(), with the library's own rules (ParameterWatch, RankPlaces,
// GeneratorsAtStep).
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

  // All workers of it have come together.
  void Begin(Group* group);
  // LEAVE=1.
  void AskToLeave(int worker);
  // A member ended or has left: the collectives of the others fail.
  void OnPeerGone(Group* group);
  // It is not stuck any more.
  void Resume(int worker);
  // It ended, or has left.
  void OnGone(const Worker& worker);

 private:
  enum class Phase { kLoads, kComputes, kAverages, kOptimizer, kSaves, kWaits, kUnwinds };
  struct Trainee {
    Phase phase = Phase::kLoads;
    RankState state{};  // its parameters may be half of the next step's
    RankState next{};
    bool finished = false;        // a step of this generation
    std::vector<Digest> older{};  // all ranks' generators, at some step before
    bool asked = false;           // to leave
    bool in_time = true;          // it got the turn to make a snapshot, or nobody needed it
    int turn = 0;                 // what was to happen in an earlier one does not
    std::function<void()> resume{};
  };

  const Worker& Of(int worker) const;
  std::vector<int> MembersOf(const Group& group) const;
  void Later(int worker, Time delay, std::function<void()> task);

  void Load(Group* group);
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

  // A collective of it fails.
  void Fail(int worker);
  void Unwind(int worker);
  std::optional<WholeState> Take(int worker) const;
  void AwaitTurn(int worker, const WholeState& state, Time until);
  void Publish(int worker, const WholeState& state);
  // That it leaves behind, by what it has done, whoever is asked.
  bool CanKeepItsStep(int worker) const;
  void Left(int worker);

  World* const world_;
  Training* const training_;
  std::map<int, Trainee> trainees_;  // by worker
  // Of each durable state what it holds.
  std::map<std::tuple<std::uint32_t, int, std::int64_t>, WholeState> durable_;
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_IN_PLACE_H_
