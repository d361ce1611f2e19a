// RestartClock: measures the phases of each restart on this node, from the events that the agent
// passes to it. Left of an arrow: the event that begins the phase; right: the event that ends it.
// Nothing on the left: the phase begins when the phase above ends.
//
//     stop           a worker has failed, or the rendezvous says Stop  →  the node is cleared
//     round          →  this agent has the new ranks of its workers, and starts them
//     spawn          →  every worker is a new process, or a standby that has got its rank
//     load           →  ddp::init() has begun: libraries are loaded. Without it: as for setup
//     process_group  →  ddp::init() has ended
//     setup          →  the first step is done, or a phase NAME begins
//     NAME (PHASE=NAME)           →  the next phase NAME, or the first step
//
// NAME is a phase of the program's own, or a phase of Checkpointer: restore (it loads a state) or
// first_step (the state is loaded).
//
// The phases after `spawn` exist only if workers report them on the control socket. A phase begins
// when the last worker enters it, unless a worker is in the next phase already. If a worker enters
// a phase several times, its first time counts. If a program's own phase has a name from `stop` to
// `setup`, it is shown as program_NAME. A program's own phases count only before the first step. If
// no step follows, they count only before the last of load, process_group, setup, restore and
// first_step: later ones may begin hours after the start. Pure: the time is an argument.
#ifndef DDPRUN_LAUNCHER_CORE_RESTART_CLOCK_H_
#define DDPRUN_LAUNCHER_CORE_RESTART_CLOCK_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/core/measures/restart_times.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class RestartClock {
 public:
  explicit RestartClock(int workers) : workers_(workers) {}

  // Call these in this order; each ends the previous phase. The first generation is not measured.
  void GenerationEnded(TimePoint now);
  void NoWorkerLeft(TimePoint now);  // the node is cleared (NodeCleared)
  void GenerationStarted(Generation generation, TimePoint now);
  void WorkersSpawned(int warm, TimePoint now);
  // A worker entered a phase: "init", "ready", or a NAME (see above).
  void PhaseBegan(LocalRank local_rank, const std::string& name, TimePoint now);
  void StepMade(LocalRank local_rank, TimePoint now);

  // A finished restart, returned once. A restart that another restart or the job's end (Close) has
  // interrupted is returned, too, if all its workers were started.
  std::optional<RestartTimes> Take();
  void Close();

 private:
  struct Phase {
    std::string name;
    TimePoint begin;
    std::set<LocalRank> workers;  // that have entered it
  };
  void Begin(const std::string& name, TimePoint now);
  void Complete(TimePoint end, bool to_first_step);

  const int workers_;
  bool measuring_ = false;
  RestartTimes times_;         // of the restart in progress
  std::vector<Phase> phases_;  // begun so far
  TimePoint seen_{};           // when the last phase began
  std::set<LocalRank> stepped_;
  std::optional<RestartTimes> complete_;
};

// "restart into generation 2, to the first step: 57.3 ms (stop 2.1, round 0.8, ...), 2 of 2 workers
// from standbys".
std::string Describe(const RestartTimes& times, int workers);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_RESTART_CLOCK_H_
