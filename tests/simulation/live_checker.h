// The rules for workers whose process lives through several generations.
// docs/internals/simulation.md has the list.
#ifndef DDPRUN_TESTS_SIMULATION_LIVE_CHECKER_H_
#define DDPRUN_TESTS_SIMULATION_LIVE_CHECKER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "rendezvous/core/saved_state.h"
#include "tests/simulation/trained_state.h"

namespace ddprun::sim {

struct World;
struct Group;
struct Worker;

class LiveChecker {
 public:
  explicit LiveChecker(World* world) : world_(world) {}

  // `first`: the first rank of its node, from its agent's assignment.
  void OnStarted(const Worker& worker, Rank first);
  // All workers of the group are present.
  void OnTogether(const Group& group, const std::vector<int>& members);
  // `source`: the rank from which the worker takes the state; nullopt: there is no state.
  void OnSource(const Worker& worker, std::optional<int> source);
  // The source does not have the planned state.
  void OnMissing(const Group& group);
  // A rank has loaded the state, and begins its steps.
  void OnBegan(const Worker& worker, const RankState& state);
  void OnFinished(const Worker& worker, const RankState& state, StepRecord* record);
  // A worker has left its generation after this step: the step must not be lost.
  void OnKept(const Worker& worker, std::int64_t step);
  // The newest state that workers of this agent had to keep since the last call.
  std::optional<SavedState> TakeKept(int agent);

 private:
  // False for a job that was begun again, or whose rendezvous may forget: there the checker knows
  // less.
  bool Checks(const Group& group) const;

  World* const world_;  // outlives this
  std::map<const Group*, std::optional<int>> sources_;
  // By agent and rank: the newest requeue number and generation whose state the rank has loaded.
  std::map<std::pair<int, int>, std::pair<std::uint32_t, Generation>> began_with_;
  std::map<int, SavedState> kept_;  // by agent
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_LIVE_CHECKER_H_
