// The warm standbys of this node: processes of the job's command that were started ahead of time.
// They have loaded their libraries, and wait on the control socket to become workers. Workers that
// left their generation also wait here for the next one.
//
// StandbyPool decides; this class acts. A standby is started below the guardian, like a worker,
// with DDPRUN_STANDBY=1 and without a rank. It says STANDBY=waiting. HandOver() makes it a worker:
// it sends GO=1 with the worker's environment and output pipes. Until then the standby's output
// goes to separate files (RunDirectory::StandbyFolder), not to the console. The end of a standby is
// no failure: another one replaces it.
//
// With a fork server (fork_server_process.h) standbys are forked, and each worker begins as a
// standby: AwaitStart() requests one for each worker.
//
// Belongs to the agent and its loop's thread.
#ifndef DDPRUN_LAUNCHER_AGENT_STANDBYS_STANDBYS_H_
#define DDPRUN_LAUNCHER_AGENT_STANDBYS_STANDBYS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/run/run_directory.h"
#include "launcher/agent/standbys/fork_server_process.h"
#include "launcher/core/standby_pool.h"
#include "launcher/os/control_socket.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/off_loop.h"
#include "launcher/os/output/log_pump.h"
#include "launcher/os/output/writer_thread.h"
#include "launcher/os/process/process_runner.h"
#include "launcher/text/parse_control.h"

namespace ddprun {

class Standbys {
 public:
  struct Options {
    StandbyPool::Options pool;
    std::function<SpawnRequest(LocalRank)> request;  // how a standby is started
    std::string python_path;  // the first entry in a new process's PYTHONPATH; "": none
    std::optional<ForkServerProcess::Options> fork_server{};
  };
  // A standby that has become a worker.
  struct HandedOver {
    SpawnedProcess process;  // with the pipes of its output as a worker
    // Pumps the output of the time when it was a standby; keep it until the worker ends. Null: the
    // process was forked.
    std::unique_ptr<LogPump> before;
  };

  // All pointers must outlive this object.
  Standbys(Options options, EventLoop* loop, ProcessRunner* runner, WriterThread* files,
           ControlSocket* control, OffLoop* disk, RunDirectory* run);
  ~Standbys();
  Standbys(const Standbys&) = delete;
  Standbys& operator=(const Standbys&) = delete;

  // Takes an event of StandbyPool. JobEnded kills all standbys. All are gone when
  // ProcessRunner::EndOrphans finds no process.
  void Feed(const StandbyPool::Event& event);

  // Starts the fork server, if the job has one.
  void Begin();

  // Calls `done` once: when each local rank has a standby that waits, or after `limit`. Calls it
  // earlier if no standby can be expected, or if there is neither a fork server nor a StartAhead()
  // in progress. Without a fork server, the limit of that StartAhead() counts instead. Does not
  // call it if the job ends first.
  void AwaitStart(Duration limit, std::function<void()> done);

  // For a node without workers that joins a running job: starts a standby for each local rank, with
  // or without a fork server. The caller knows that the job's program can wait as a standby. Calls
  // `done` like AwaitStart(); a repeated call keeps the first limit.
  void StartAhead(Duration limit, std::function<void()> done);

  // A worker has left its generation and waits; `pump` still reads its output.
  void Adopt(LocalRank local_rank, SpawnedProcess process, std::unique_ptr<LogPump> pump);

  // Turns a process that waits for this local rank into a worker. `env`: the worker's environment.
  // `folder`: for the worker's logs. nullopt: no process waits, so the worker must be started.
  std::optional<HandedOver> HandOver(LocalRank local_rank, const std::vector<std::string>& env,
                                     const std::string& folder);

  // Takes a message of a process that is no worker. Ignores it unless the process is a standby, the
  // fork server, or a new process of the fork server.
  void Hear(pid_t peer, const ControlMessage& message);

  // Signals the process group of each standby and of the fork server. Passes on the agent's SIGSTOP
  // and SIGCONT.
  void Signal(int signo);

  // Call it when the guardian is dead: then the standbys are dead, too. Forgets them.
  void Lose();

 private:
  using Id = StandbyPool::Id;
  struct Standby {
    SpawnedProcess process;
    std::unique_ptr<LogPump> pump;  // null: it was forked, and shares the fork server's output
    bool was_worker = false;
  };

  void Perform(const StandbyPool::StartStandby& start);
  void Perform(const StandbyPool::EndStandby& end);
  void Perform(const StandbyPool::Note& note);
  void Perform(const StandbyPool::StartCanBegin& begin);
  absl::Status Start(Id id, LocalRank local_rank);
  void Add(Id id, Standby standby);
  void OnWaiting(pid_t peer);
  void OnForked(pid_t peer, std::int64_t number);
  void OnEnded(Id id);
  // The folder of its output until now.
  std::string FolderOf(Id id, const Standby& standby) const;
  // Removes the standby from standbys_, and ends the watch on the loop. Its pump still reads.
  Standby Release(Id id);
  void Discard(const Standby& standby);
  void TellForkServer(const StandbyPool::Event& event);
  void ArmDeadline();

  const Options options_;
  EventLoop* const loop_;
  ProcessRunner* const runner_;
  WriterThread* const files_;
  ControlSocket* const control_;
  OffLoop* const disk_;
  RunDirectory* const run_;

  StandbyPool pool_;
  std::map<Id, Standby> standbys_;
  std::vector<std::function<void()>> when_start_can_begin_;
  std::optional<ForkServerProcess> fork_server_;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_STANDBYS_STANDBYS_H_
