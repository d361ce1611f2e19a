// WorkerWatch: observes this node's workers in their generation: whether they move, which ranks
// keep the others waiting, and on request their stacks.
//
// Belongs to the agent and its loop's thread. Another thread copies the stacks.
#ifndef DDPRUN_LAUNCHER_AGENT_WORKER_WATCH_H_
#define DDPRUN_LAUNCHER_AGENT_WORKER_WATCH_H_

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "launcher/agent/node_workers.h"
#include "launcher/agent/rank_processes.h"
#include "launcher/agent/tcp_counters.h"
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
    Duration heartbeat;  // the job's; Look() is called this often
    // True: warns if no worker reports its steps, because hangs cannot be noticed then
    // (silence_watch.h). It has no other effect.
    bool judges_hangs = true;
    bool is_python = false;  // true: this warning comes after 15 s instead of 60 s
  };

  // Both pointers must outlive this object.
  WorkerWatch(const Options& options, EventLoop* loop, NodeWorkers* workers);

  // A generation starts; `of_rank_0`: its rank 0 runs on this node.
  void Begin(bool of_rank_0);
  void End();

  // The workers' progress, for a heartbeat. Call it while workers run.
  NodeProgress Look();
  // The last collectives of this generation's workers, also of dead ones, for the message
  // Stopped.
  std::vector<EnteredCall> LastCalls(Generation generation);

  // Finds the process that does the work of each rank. Copies the stacks of this process and of the
  // rank's other processes, with a limit of 4 s. Calls `done` when the copying has ended, even if
  // that is later.
  void TakeStacks(std::vector<RankProcess> ranks,
                  std::function<void(const EncodedStackTree&)> done);

  void OnStraggler(const StragglerMsg& straggler);
  // Call it when rank 0's worker, on this node, has sent COMPARES: it compares the ranks' times.
  void OnCompares() { stragglers_.Compare(); }
  // Adds the ranks that keep the others waiting, if a worker of this node reports them.
  void FillIn(NodeUsage* usage) const;
  // Call it when a process that belongs to no worker reported a step. Logs it at most once per
  // agent, and only while workers run.
  void OnStepOfNobody(const ProcessId& speaker);

 private:
  // While stacks are copied, returns the earlier facts of this process, if there are any.
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
  std::map<int, ProcessFacts> facts_;  // by pid, as last read
  TcpCounters tcp_;
  OffLoop stack_taker_;
  stacks::StackUrgency urgency_ = stacks::StackUrgency::kBesideTraining;
  int taking_stacks_ = 0;      // requests in progress
  TimePoint copying_until_{};  // FactsOf() assumes that copying has ended by then
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_WORKER_WATCH_H_
