// WorkerWatch: how the workers of this node get on in their generation: whether they move, who
// keeps the others waiting, and where they are when somebody asks.
//
// Belongs to the agent and its loop's thread. Stacks are copied on another thread.
#ifndef DDPRUN_LAUNCHER_AGENT_WORKER_WATCH_H_
#define DDPRUN_LAUNCHER_AGENT_WORKER_WATCH_H_

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "launcher/agent/node_workers.h"
#include "launcher/agent/rank_processes.h"
#include "launcher/core/silence_watch.h"
#include "launcher/core/still_watch.h"
#include "launcher/core/straggler_list.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/off_loop.h"
#include "launcher/stacks/take_stacks.h"
#include "rendezvous/core/measures/node_usage.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"
#include "worker/contract/control.h"

namespace ddprun {

class WorkerWatch {
 public:
  struct Options {
    Duration heartbeat;        // of the job: how often Look() is called
    bool judges_hangs = true;  // false: nobody misses what the workers do not tell
    bool is_python = false;    // its import of the module ddprun tells that steps will come
  };

  // Both pointers must outlive this object.
  WorkerWatch(const Options& options, EventLoop* loop, NodeWorkers* workers);

  // A generation starts; `of_rank_0`: its rank 0 runs on this node.
  void Begin(bool of_rank_0);
  void End();

  // For a heartbeat, while workers run.
  NodeProgress Look();
  // For Stopped: the last collectives of the workers of this generation, the dead included.
  std::vector<EnteredCall> LastCalls(Generation generation);

  // Copies the stacks of these ranks, whose speakers it looks up, and of the processes that they
  // have started. Calls `done` however long it takes.
  void TakeStacks(std::vector<RankProcess> ranks,
                  std::function<void(const EncodedStackTree&)> done);

  void OnStraggler(const StragglerMsg& straggler);
  void OnCompares() { stragglers_.Compare(); }
  // Puts in who keeps the others of the job waiting, where a worker of this node tells.
  void FillIn(NodeUsage* usage) const;
  // A process that belongs to no worker has told a step: while workers run the log says so, once.
  void OnStepOfNobody(const ProcessId& speaker);

 private:
  ProcessFacts FactsOf(int pid);
  // The process that does the work of this worker's rank; itself where no other one is known.
  ProcessId SpeakerOf(pid_t worker) const;

  EventLoop* const loop_;
  NodeWorkers* const workers_;
  StragglerList stragglers_;
  StillWatch still_;
  SilenceWatch silence_;
  EventLoop::TimerId silence_timer_ = 0;
  bool runs_ = false;  // a generation does
  bool said_nobody_ = false;
  std::map<int, ProcessFacts> facts_;  // by pid, as they were read last
  OffLoop stack_taker_;
  stacks::StackUrgency urgency_ = stacks::StackUrgency::kBesideTraining;
  int taking_stacks_ = 0;      // requests in progress
  TimePoint copying_until_{};  // at the latest, as far as FactsOf() believes
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_WORKER_WATCH_H_
