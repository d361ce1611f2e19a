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
  // The JobMachine of job `life` said that this happened.
  void OnEvent(const JobMachine& machine, int life, const JobEvent& event);
  void OnRecord(int life, const JobRecord& record);
  void OnNote(const std::string& text);
  // An assignment becomes visible to the agents.
  void OnAssigned(int life, const Header& header, const Assignment& assignment);
  void OnRestored(const JobMachine& machine, const JobRecord& record);
  void OnJobBegins();
  // An agent came back from a generation that the daemon of job `life` has no record of.
  void OnReturner(int life) { returners_.insert(life); }
  // Once, at the end.
  void OnEnd(bool in_time);

 private:
  // The number of a generation, of one life of one job.
  using Key = std::tuple<int, std::uint32_t, int>;
  struct Formed {
    std::map<int, Assignment> by_node;
  };

  // Workers of `older` must be gone before those of `newer` start; not so where the daemon lost its
  // memory and nobody told it, or where a job of the same name was begun after the end.
  bool Excludes(int older, int newer) const;
  // A node that is lost soon after joining, again and again, ends few generations.
  void CheckLosses(const RootCause& cause);
  void CheckNobodyRuns(const JobMachine& machine, int life);
  // A generation is being formed: what it begins with.
  void CheckPlan(const JobRecord& record);
  // What is on the disk of a member, whether its agent has seen it or not.
  void CheckDisk(const NodeRecord& member, const RestorePlan& plan, const std::string& where);
  // Each checkpoint that failed is counted once at most; each is, where no agent is ended by a
  // fault.
  void CheckFailures(const JobMachine& machine);
  // By all generations that may have started, one by one.
  bool IsDead(const SavedState& state) const;

  World* const world_;  // outlives this
  std::set<int> returners_;
  std::map<Key, Formed> formed_;
  std::map<Key, std::uint64_t> members_;  // hash of agent_ids and ranks, from the record
  std::vector<ResumePoint> resumed_;
  std::optional<RestorePlan> planned_;  // by the newest record
  Generation checked_{-1};              // its plan
  bool without_a_disk_ = false;         // one had not answered in time, and nobody waited longer
  int restarts_ = 0;
  std::map<std::string, std::vector<Time>> losses_;  // that ended a generation, by host
  bool failed_ = false;                              // the generation that ended last did
  bool spends_ = false;                              // a restart, by its cause
  std::map<std::pair<int, std::uint32_t>, std::pair<int, int>> visible_;  // generation, restarts
  std::map<std::pair<int, std::uint32_t>, RunId> runs_;
};

}  // namespace ddprun::sim

#endif  // DDPRUN_TESTS_SIMULATION_CHECKER_H_
