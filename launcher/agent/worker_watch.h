// WorkerWatch: watches the workers of this node in their generation: whether they move, which ranks
// keep the others waiting, and their stacks on request.
//
// Belongs to the agent and its loop's thread. Another thread copies stacks.
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
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"
#include "worker/contract/control.h"

namespace ddprun {

class WorkerWatch {
 public:
  struct Options {
    Duration heartbeat;        // of the job: the interval of Look() calls
    bool judges_hangs = true;  // false: the job judges no hangs, so untold steps need no warning
    bool is_python = false;    // importing the module ddprun announces steps
  };

  // Both pointers must outlive this object.
  WorkerWatch(const Options& options, EventLoop* loop, NodeWorkers* workers);

  // A generation starts. `of_rank_0`: its rank 0 runs on this node.
  void Begin(bool of_rank_0);
  void End();

  // The progress for a heartbeat, while workers run.
  NodeProgress Look();
  // The last collectives of the workers of this generation, dead ones included, for Stopped.
  std::vector<EnteredCall> LastCalls(Generation generation);

  // Copies the stacks of these ranks and of their descendants; it looks up the speakers itself.
  // Always calls `done`, however long it takes.
  void TakeStacks(std::vector<RankProcess> ranks,
                  std::function<void(const EncodedStackTree&)> done);

  void OnStraggler(const StragglerMsg& straggler);
  // How many ranks of the job keep the others waiting; known only on the node of rank 0.
  int stragglers() const { return runs_ ? stragglers_.size() : 0; }
  // A process that belongs to no worker has told a step. While workers run, this is logged once.
  void OnStepOfNobody(const ProcessId& speaker);

 private:
  ProcessFacts FactsOf(int pid);
  // The process that does the work of this worker's rank; the worker itself if no other is known.
  ProcessId SpeakerOf(pid_t worker) const;

  EventLoop* const loop_;
  NodeWorkers* const workers_;
  StragglerList stragglers_;
  StillWatch still_;
  SilenceWatch silence_;
  EventLoop::TimerId silence_timer_ = 0;
  bool runs_ = false;  // a generation runs
  bool said_nobody_ = false;
  std::map<int, ProcessFacts> facts_;  // by pid, as read last
  OffLoop stack_taker_;
  stacks::StackUrgency urgency_ = stacks::StackUrgency::kBesideTraining;
  int taking_stacks_ = 0;      // requests in progress
  TimePoint copying_until_{};  // FactsOf() assumes that copying ends by then
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_WORKER_WATCH_H_
