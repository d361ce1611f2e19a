// RestartClock: measures the phases of each restart on this node, from what its owner saw happen.
//
//     stop           a worker has failed, or the rendezvous says Stop  →  no worker is left
//     round          →  every node has come together again
//     spawn          →  every worker was started, or a standby was handed its place
//     load           →  ddp::init() has begun: libraries are loaded
//     process_group  →  ddp::init() has ended
//     setup          →  the first step is done, or the program names a phase of its own
//     (PHASE=name) NAME           →  the next one, or the first step
//
// What a worker does not tell has no phase: a program that does not know the control socket has the
// first three. Where several workers do the same, the last one counts, and of each worker the first
// time. A program's phase that has the name of one of ours is shown as program_NAME. Phases of a
// program's own count only up to a first step: one that tells no step may name them hours later.
// Pure: the time comes in.
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

  // In this order, each with what it ends. A generation that had no other before it is no restart.
  void GenerationEnded(TimePoint now);
  void NoWorkerLeft(TimePoint now);
  void GenerationStarted(Generation generation, TimePoint now);
  void WorkersSpawned(int warm, TimePoint now);
  // Of any worker: "init", "ready", or a name of its own.
  void PhaseBegan(LocalRank local_rank, const std::string& name, TimePoint now);
  void StepMade(LocalRank local_rank, TimePoint now);

  // The restart that is complete, once. A restart that another one, or the job's end (Close), has
  // cut short is complete too.
  std::optional<RestartTimes> Take();
  void Close();

 private:
  struct Phase {
    std::string name;
    TimePoint begin;
    std::set<LocalRank> workers;  // that have told of it
  };
  void Begin(const std::string& name, TimePoint now);
  void Complete(TimePoint end, bool to_first_step);

  const int workers_;
  bool measuring_ = false;
  RestartTimes times_;         // of the restart that is measured
  std::vector<Phase> phases_;  // begun so far
  TimePoint seen_{};           // when something was last known of it
  std::set<LocalRank> stepped_;
  std::optional<RestartTimes> complete_;
};

// "restart into generation 2 took 57.3 ms: stop 2.1, round 0.8, ...; 2 of 2 workers were warm".
std::string Describe(const RestartTimes& times, int workers);

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_RESTART_CLOCK_H_
