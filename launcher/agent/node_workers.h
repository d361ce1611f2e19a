// NodeWorkers: starts, signals and reaps the worker processes of this node, and takes their
// messages. The Supervisor (launcher/core/supervisor.h) decides; NodeWorkers only acts.
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
#include "launcher/os/death_watch.h"
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
    bool oom_killed = false;  // killed by the kernel's out-of-memory killer
  };
  // Called on the loop.
  struct Events {
    // The program runs, or its process was killed before the program could run.
    std::function<void(LocalRank, pid_t)> started;
    // The program could not be started. If the exec of several workers fails within 20 ms, the
    // lowest local rank is reported first. So a wrong command has the same root cause each time.
    std::function<void(LocalRank, const absl::Status&)> not_started;
    // Also called for a worker that is exiting (process_stat.h).
    std::function<void(const Ended&)> ended;
    // ProcessRunner returned Unavailable: the workers are dead.
    std::function<void(const absl::Status&)> lost;
    std::function<void(pid_t)> stuck_ended;  // a process that SIGKILL did not end in time is gone
  };
  // How the workers of a generation are started.
  struct Start {
    Rank first_rank;
    std::function<SpawnRequest(LocalRank)> request;
    std::function<std::string(LocalRank)> folder;  // of its log files
  };

  // All pointers must outlive this object.
  NodeWorkers(int count, WorkerLogs::Options logs, EventLoop* loop, ProcessRunner* runner,
              WriterThread* files, Console console, ControlSocket* control, Events events);
  ~NodeWorkers();
  NodeWorkers(const NodeWorkers&) = delete;
  NodeWorkers& operator=(const NodeWorkers&) = delete;

  // Begins to start all workers, from standbys if there are any. `started` or `not_started` follows
  // for each worker, during this call or later. Each turn of the loop starts only a few workers, so
  // that heartbeats continue.
  void StartAll(Start start, Standbys* standbys);
  // Call it when the generation is over. Calls not_started for each worker that StartAll has not
  // reached.
  void StopStarting();
  // The number of workers made from standbys instead of being started.
  int warm_count() const;

  // Does nothing if the worker is gone, because its end is already being handled.
  void Signal(LocalRank local_rank, int signo);
  void SignalAll(int signo);
  void AskToSave(LocalRank local_rank);
  // Asks the worker to leave its generation. The worker later sends STANDBY=waiting (LetStay).
  void AskToLeave(LocalRank local_rank);
  // Call it when a worker has sent STANDBY=waiting. If the worker was asked to leave, and no signal
  // to end it was sent since, moves it to `standbys` and returns true.
  bool LetStay(LocalRank local_rank, Standbys& standbys);
  std::optional<pid_t> PidOf(LocalRank local_rank) const;
  std::optional<LocalRank> WithPid(pid_t pid) const;

  // Call it when the guardian is dead: then the workers are dead, too. Reads the workers' last
  // output and messages, and forgets the workers.
  void Abandon();
  // The NodeClearer takes over the workers that SIGKILL has not ended, kills the processes that
  // workers left behind, and calls `done` (node_clearer.h, which also explains `may_be_exiting`).
  void Clear(bool may_be_exiting, NodeClearer::Done done);

  // Call it with each heartbeat while a generation runs.
  void LookForOomKills(TimePoint now) { oom_.Look(now); }
  // The workers of a generation are about to start. `secret`: shared by all workers of the
  // generation, for the connections between them (docs/security.md); empty: none. `will_tell`: as
  // in ProgressWatch::BeginGeneration().
  void BeginGeneration(Generation generation, std::string secret, bool will_tell) {
    oom_.Begin();
    deaths_.Clear();
    progress_.BeginGeneration(generation, will_tell);
    secret_ = std::move(secret);
  }
  // The generation of the current workers.
  Generation generation() const { return progress_.generation(); }
  // Sends the secret to the worker that asked for it.
  void HandOverSecret(LocalRank local_rank);
  // Counts the worker's message as progress. Answers READY=1 and PROGRESS=1 with the worker's
  // progress page (progress_page.h).
  void Hear(LocalRank local_rank, const ProcessId& speaker, const ControlMessage& message,
            TimePoint now);
  // The progress of all workers of this generation, dead ones included.
  ProgressWatch& progress() { return progress_; }
  std::vector<pid_t> Pids() const;
  // The workers whose programs run, with their ranks.
  std::vector<UsageMeter::RankWorker> RankWorkers() const;
  LogTotals log_totals() const { return logs_.totals(); }

  // Writes the lines held back by --collapse to the console.
  void FlushLogs() { logs_.Flush(); }

 private:
  struct Worker {
    SpawnedProcess process;
    std::unique_ptr<LogPump> pump;
    bool waited = false;  // true: it was a standby, or left the previous generation and stayed
    // Pumps the output of the time before this generation. Null: a new process, or a standby that
    // the fork server forked.
    std::unique_ptr<LogPump> pump_before;
    Rank rank;
    bool leaves = false;    // it was asked to leave, and no signal to end it was sent since
    bool has_page = false;  // it was given its progress page
    std::optional<TimePoint> killed_at;  // when it got its first SIGKILL
    // True while it is not known whether the program runs.
    bool starting() const { return process.outcome_pipe.valid(); }
  };
  // StartAll in progress.
  struct Starting {
    Start how;
    Standbys* standbys;
    int next = 0;  // local rank
    EventLoop::TimerId turn = 0;
  };

  // Starts the next few workers, and lets the loop call it again for the rest.
  void StartSome();
  absl::Status StartOne(LocalRank local_rank);
  void StopStarting(const absl::Status& why);
  // Stops waiting for the outcome of the workers that are being started.
  void ForgetStarts();
  // Called when the exec of the worker has succeeded or failed.
  void OnOutcome(LocalRank local_rank);
  // Reports the failed execs. A report waits for a moment while a worker with a lower rank is
  // starting, because that worker may fail as well. `all`: no report waits.
  void TellNotExecuted(bool all);
  void OnEnded(LocalRank local_rank);
  // Called when the worker's page says that it dies. `tries`: how often its threads were looked at.
  void OnDying(LocalRank local_rank, pid_t pid, int tries);
  // Takes the worker out of workers_, after its last messages and its last output.
  std::unique_ptr<Worker> TakeDead(LocalRank local_rank);
  void TellEnded(LocalRank local_rank, const Worker& worker, ExitStatus status);
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
  DeathWatch deaths_;
  NodeClearer clearer_;
  std::vector<std::unique_ptr<Worker>> workers_;  // by local rank; null: no worker
  std::optional<Starting> starting_;
  std::map<LocalRank, absl::Status> not_executed_;  // failed, not reported yet
  EventLoop::TimerId tell_not_executed_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_NODE_WORKERS_H_
