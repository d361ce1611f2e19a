// NodeWorkers: the worker processes of this node, from their start to their end: started,
// signalled, heard and collected, as the Supervisor decides. It decides nothing.
//
// Belongs to the agent and its loop's thread.
#ifndef DDPRUN_LAUNCHER_AGENT_NODE_WORKERS_H_
#define DDPRUN_LAUNCHER_AGENT_NODE_WORKERS_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "launcher/agent/node_clearer.h"
#include "launcher/agent/progress_watch.h"
#include "launcher/agent/standbys/standbys.h"
#include "launcher/agent/usage/usage_meter.h"
#include "launcher/agent/worker_logs.h"
#include "launcher/agent/worker_postmortem.h"
#include "launcher/os/control_socket.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/output/log_pump.h"
#include "launcher/os/process/process_runner.h"
#include "rendezvous/core/exit_status.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class NodeWorkers {
 public:
  struct Ended {
    LocalRank local_rank;
    pid_t pid = 0;
    ExitStatus status;
    std::vector<std::string> stderr_tail;
    bool oom_killed = false;  // by the kernel, which was out of memory
  };
  // Called on the loop.
  struct Events {
    std::function<void(LocalRank, pid_t)> started;  // its program runs
    // It does not, and will not. Of several whose programs cannot be executed the lowest rank comes
    // first: the root cause of a wrong command is always the same.
    std::function<void(LocalRank, const absl::Status&)> not_started;
    std::function<void(const Ended&)> ended;
    // Unavailable, of ProcessRunner: the workers are out of reach, and dead.
    std::function<void(const absl::Status&)> lost;
    std::function<void(pid_t)> stuck_ended;  // one that Clear() named is gone
  };
  // How the workers of a generation are started.
  struct Start {
    Rank first_rank;
    std::function<SpawnRequest(LocalRank)> request;
    std::function<std::string(LocalRank)> folder;  // for its log files
  };

  // All pointers must outlive this object.
  NodeWorkers(int count, WorkerLogs::Options logs, EventLoop* loop, ProcessRunner* runner,
              WriterThread* files, Console console, ControlSocket* control, Events events);
  ~NodeWorkers();
  NodeWorkers(const NodeWorkers&) = delete;
  NodeWorkers& operator=(const NodeWorkers&) = delete;

  // Begins to start all workers, or makes them of standbys. An event tells of each, now or later.
  // Of many a few are started in each turn of the loop: heartbeats go on.
  void StartAll(Start start, Standbys* standbys);
  // The generation is over. Calls not_started for each worker that StartAll has not reached.
  void StopStarting();
  // Workers that were standbys before: they were not started.
  int warm_count() const;

  // Nothing where it is not there any more: its end is being handled.
  void Signal(LocalRank local_rank, int signo);
  void SignalAll(int signo);
  void AskToSave(LocalRank local_rank);
  // It is to leave its generation, and then says that it waits.
  void AskToLeave(LocalRank local_rank);
  // The worker says that it waits. Where it was asked to leave it is given to `standbys`, and is
  // not there any more: true.
  bool LetStay(LocalRank local_rank, Standbys& standbys);
  std::optional<pid_t> PidOf(LocalRank local_rank) const;
  std::optional<LocalRank> WithPid(pid_t pid) const;

  // The guardian is gone, and the workers with it. Reads their last output and messages, and
  // forgets them.
  void Abandon();
  // Gives up workers that SIGKILL has not ended, ends all other processes that are left, and calls
  // `done`: node_clearer.h.
  void Clear(NodeClearer::Done done);

  // With each heartbeat of a generation that runs.
  void LookForOomKills(TimePoint now) { oom_.Look(now); }
  // The workers of a generation are about to start. `secret`: theirs; empty: they have none.
  // `will_tell`: as ProgressWatch::BeginGeneration.
  void BeginGeneration(Generation generation, std::string secret, bool will_tell) {
    oom_.Begin();
    progress_.BeginGeneration(generation, will_tell);
    secret_ = std::move(secret);
  }
  // Of the workers that are there.
  Generation generation() const { return progress_.generation(); }
  // To the worker that has asked for it.
  void HandOverSecret(LocalRank local_rank);
  // What the worker has said counts as progress. One that has said READY gets its progress page.
  void Hear(LocalRank local_rank, const ProcessId& speaker, const ControlMessage& message,
            TimePoint now);
  // The progress of all workers of this generation. Dead workers are included.
  ProgressWatch& progress() { return progress_; }
  std::vector<pid_t> Pids() const;
  // Those whose programs run, with their ranks.
  std::vector<UsageMeter::RankWorker> RankWorkers() const;
  LogTotals log_totals() const { return logs_.totals(); }

  // Hands what is held back for --collapse to the console.
  void FlushLogs() { logs_.Flush(); }

 private:
  struct Worker {
    SpawnedProcess process;
    std::unique_ptr<LogPump> pump;
    bool waited = false;  // as a standby, or after the generation before; it was not started
    std::unique_ptr<LogPump> pump_before;  // of what it wrote until then; null: it was forked
    Rank rank;
    bool leaves = false;                 // it was asked to
    std::optional<TimePoint> killed_at;  // when it got its first SIGKILL
    // It is not known yet whether its program runs.
    bool starting() const { return process.outcome_pipe.valid(); }
  };
  // StartAll, while it goes on.
  struct Starting {
    Start how;
    Standbys* standbys;
    int next = 0;  // local rank
    EventLoop::TimerId turn = 0;
  };

  // Those whose turn it is, and has the loop call it again for the others.
  void StartSome();
  absl::Status StartOne(LocalRank local_rank);
  void StopStarting(const absl::Status& why);
  // Nobody waits for what becomes of the workers that are being started.
  void ForgetStarts();
  // Its exec has succeeded or failed.
  void OnOutcome(LocalRank local_rank);
  // Those whose exec has failed. One waits for a moment while a lower rank is starting, which may
  // be about to fail as well; `all`: none does.
  void TellNotExecuted(bool all);
  void OnEnded(LocalRank local_rank);
  void Signal(Worker& worker, int signo);
  void LetGo(Worker& worker);

  EventLoop* const loop_;
  ProcessRunner* const runner_;
  ControlSocket* const control_;
  const Events events_;
  WorkerLogs logs_;
  OomProbe oom_;
  std::string secret_;  // of this generation's workers
  ProgressWatch progress_;
  NodeClearer clearer_;
  std::vector<std::unique_ptr<Worker>> workers_;  // by local rank; null: not there
  std::optional<Starting> starting_;
  std::map<LocalRank, absl::Status> not_executed_;  // gone, and not told of
  EventLoop::TimerId tell_not_executed_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_NODE_WORKERS_H_
