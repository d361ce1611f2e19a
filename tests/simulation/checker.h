// The rules that must hold after every event of a simulated run. docs/internals/simulation.md has
// the list.
#ifndef DDPRUN_TESTS_SIMULATION_CHECKER_H_
#define DDPRUN_TESTS_SIMULATION_CHECKER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "rendezvous/machine/job_machine.h"
#include "tests/simulation/scheduler.h"

namespace ddprun::sim {

struct World;
struct Worker;

class Checker {
 public:
  explicit Checker(World* world) : world_(world) {}

  void OnWorkerStarted(const Worker& started);
  // The JobMachine of job `life` (Daemon::life) reported this event.
  void OnEvent(const JobMachine& machine, int life, const JobEvent& event);
  void OnRecord(int life, const JobRecord& record);
  void OnNote(const std::string& text);
  // An assignment becomes visible to the agents.
  void OnAssigned(int life, const Header& header, const Assignment& assignment);
  void OnRestored(const JobMachine& machine, const JobRecord& record);
  void OnJobBegins();
  // An agent came back from a generation that the daemon of job `life` has no record of.
  void OnReturner(int life) { returners_.insert(life); }
  // Call it once, at the end.
  void OnEnd(bool in_time);

 private:
  // Job (Daemon::life), requeue number, generation.
  using Key = std::tuple<int, std::uint32_t, int>;
  struct Formed {
    std::map<int, Assignment> by_node;
  };

  // Whether workers of `older` must be gone before those of `newer` start. They need not if the
  // daemon lost its memory and no agent reported them, or if a job of the same name began after
  // the end.
  bool Excludes(int older, int newer) const;
  // A node that is repeatedly lost soon after it joined ends only few generations.
  void CheckLosses(const RootCause& cause);
  void CheckNobodyRuns(const JobMachine& machine, int life);
  // Checks the state with which the generation that is being formed will begin.
  void CheckPlan(const JobRecord& record);
  // Checks the plan against the true contents of a member's disk.
  void CheckDisk(const NodeRecord& member, const RestorePlan& plan, const std::string& where);
  // A failed checkpoint is counted at most once; in a benign run that succeeds, exactly once.
  void CheckFailures(const JobMachine& machine);
  // Whether the state is of a dead timeline, judged by all generations that may have started.
  bool IsDead(const SavedState& state) const;

  World* const world_;  // outlives this
  std::set<int> returners_;
  std::map<Key, Formed> formed_;
  std::map<Key, std::uint64_t> members_;  // hash of agent_ids and ranks, from the record
  std::vector<ResumePoint> resumed_;
  std::optional<RestorePlan> planned_;  // by the newest record
  Generation checked_{-1};              // the generation whose plan was checked
  bool without_a_disk_ = false;         // the plan was made without the answer of a slow disk
  int restarts_ = 0;
  std::map<std::string, std::vector<Time>> losses_;  // losses that ended a generation, by host
  bool failed_ = false;                              // the generation that ended last failed
  bool spends_ = false;                              // the cause of the failure spends a restart
  std::map<std::pair<int, std::uint32_t>, std::pair<int, int>> visible_;  // generation, restarts
  std::map<std::pair<int, std::uint32_t>, RunId> runs_;
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_CHECKER_H_
