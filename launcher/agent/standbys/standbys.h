// The warm standbys of this node: processes of the job's command that were started ahead of time,
// have loaded what they need, and wait on the control socket to become workers. And workers that
// have left their generation and wait there for the next one.
//
// StandbyPool decides; this carries out. A standby is started as a worker is, below the guardian,
// with DDPRUN_STANDBY=1 and without a rank. It says STANDBY=waiting; HandOver() gives it the
// environment and the log files of a worker with GO=1, and from then on it is one. What it writes
// until then goes to files of its own (RunDirectory::StandbyFolder) and not to the console. Its end
// is nobody's failure: it is replaced.
//
// With a fork server (fork_server_process.h) standbys are forked, and all workers are standbys
// before: AwaitStart() has one made for each that will start.
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
    std::string python_path;  // what a new process has in front of PYTHONPATH; "": nothing
    std::optional<ForkServerProcess::Options> fork_server{};
  };
  // A standby that has become a worker.
  struct HandedOver {
    SpawnedProcess process;  // with the pipes of its log files from now on
    // Of what it wrote until then; keep it until the worker ends. Null: it was forked.
    std::unique_ptr<LogPump> before;
  };

  // All pointers must outlive this object.
  Standbys(Options options, EventLoop* loop, ProcessRunner* runner, WriterThread* files,
           ControlSocket* control, OffLoop* disk, RunDirectory* run);
  ~Standbys();
  Standbys(const Standbys&) = delete;
  Standbys& operator=(const Standbys&) = delete;

  // What happens in the job: an event of StandbyPool. With JobEnded all are killed, and no process
  // is left when ProcessRunner::EndOrphans has found nobody.
  void Feed(const StandbyPool::Event& event);

  // Starts the fork server, where there is one.
  void Begin();

  // Calls `done`, once, when a process waits for each local rank, as far as the fork server makes
  // them within `limit`; at once where there is no fork server.
  void AwaitStart(Duration limit, std::function<void()> done);

  // A worker has left its generation and waits; `pump` still reads what it writes.
  void Adopt(LocalRank local_rank, SpawnedProcess process, std::unique_ptr<LogPump> pump);

  // Makes a worker of a process that waits for this local rank; `env` is that of a worker which is
  // started, and `folder` is the worker's for its
  // logs. nullopt: there is none, and the worker is to be started.
  std::optional<HandedOver> HandOver(LocalRank local_rank, const std::vector<std::string>& env,
                                     const std::string& folder);

  // What a process has said that is no worker. Ignored where it is not one of these.
  void Hear(pid_t peer, const ControlMessage& message);

  // To the group of each: SIGSTOP and SIGCONT, with those of the agent.
  void Signal(int signo);

  // They are dead, with the guardian: forgets them.
  void Lose();

 private:
  using Id = StandbyPool::Id;
  struct Standby {
    SpawnedProcess process;
    std::unique_ptr<LogPump> pump;  // null: it was forked, and writes where the fork server does
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
  // Where that is which it has written until now.
  std::string FolderOf(Id id, const Standby& standby) const;
  // Takes it out of standbys_ and off the loop; what it has written is in its files.
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
