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
  // A rendezvous sends an assignment: from now on an agent may know it.
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

  // Whether the workers of job `older` (Daemon::life) must be gone before workers of job `newer`
  // start. If the jobs differ, they need not, unless an agent came back from an earlier generation
  // (OnReturner): the daemon does not know the older job.
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
  // Whether the state is on a dead timeline (docs/recovery.md): a later generation resumed below
  // its step. Counts all generations that may have started.
  bool IsDead(const SavedState& state) const;

  World* const world_;  // outlives this
  std::set<int> returners_;
  std::map<Key, Formed> formed_;
  // The agent_id of each node rank. In the Key, the job is life * 1000 + node rank.
  std::map<Key, std::uint64_t> members_;
  std::vector<ResumePoint> resumed_;    // where each generation that may have started resumed
  std::optional<RestorePlan> planned_;  // by the newest record
  Generation checked_{-1};              // the generation whose plan was checked
  bool without_a_disk_ = false;         // the plan was made without the answer of a slow disk
  int restarts_ = 0;
  std::map<std::string, std::vector<Time>> losses_;  // losses that ended a generation, by host
  bool failed_ = false;                              // the generation that ended last failed
  bool spends_ = false;                              // the cause of the failure spends a restart
  // By job and requeue number: the highest generation and number of restarts that agents may know.
  std::map<std::pair<int, std::uint32_t>, std::pair<int, int>> visible_;
  std::map<std::pair<int, std::uint32_t>, RunId> runs_;  // by job and requeue number
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_CHECKER_H_
