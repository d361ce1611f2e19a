// The fork server of this node: a Python interpreter, started as a worker is, below the guardian,
// that has imported the modules of --preload and forks standbys (launcher/python/fork_server.py).
//
// ForkServer decides; this carries out. FORK=n goes to it over its connection to the control
// socket, with CPUs, program and arguments as a descriptor. What it forks leaves it at once,
// becomes a child of the guardian, connects to the control socket by itself and says FORKED=n;
// Adopt() then makes the guardian keep it. So it is no child of the fork server, whose end ends
// nobody. What the modules write when they are imported goes to files of its own
// (RunDirectory::ForkServerFolder).
//
// Belongs to the agent and its loop's thread.
#ifndef DDPRUN_LAUNCHER_AGENT_STANDBYS_FORK_SERVER_PROCESS_H_
#define DDPRUN_LAUNCHER_AGENT_STANDBYS_FORK_SERVER_PROCESS_H_

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/core/fork_server.h"
#include "launcher/os/control_socket.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/output/log_pump.h"
#include "launcher/os/output/writer_thread.h"
#include "launcher/os/process/process_runner.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class ForkServerProcess {
 public:
  struct Options {
    ForkServer::Options core;
    SpawnRequest request;
    // What comes with FORK=n, for a worker with this local rank (worker/contract/control.h).
    std::function<std::vector<std::string>(LocalRank)> order;
    std::string log_folder;
  };

  // All pointers must outlive this object. `on_change`: the state is another one; on the loop, and
  // also from within Feed() and Ask().
  ForkServerProcess(Options options, EventLoop* loop, ProcessRunner* runner, WriterThread* files,
                    ControlSocket* control, std::function<void(ForkServerState)> on_change);
  ~ForkServerProcess();
  ForkServerProcess(const ForkServerProcess&) = delete;
  ForkServerProcess& operator=(const ForkServerProcess&) = delete;

  void Feed(const ForkServer::Event& event);

  // Asks for a process; FORKED=number follows, or the state changes.
  void Ask(ForkServer::Number number, LocalRank local_rank);
  // It has come, or is not wanted any more. False: it was not asked for, or it was lost with a
  // server.
  bool Answered(ForkServer::Number number);
  // FORKSERVER. Ignored where `peer` is not this one.
  void Hear(pid_t peer, const ForkServerMsg& message);

  // Whether workers train now: while it imports, it has nice value 5 then.
  void GiveWay(bool trains);
  // To its group: SIGSTOP and SIGCONT, with those of the agent.
  void Signal(int signo);
  // It is dead, with the guardian: forgets it.
  void Lose();

 private:
  // So many may be asked for and not there yet: more would not fit into its socket.
  static constexpr std::size_t kMostAsked = 32;

  void AskNext();
  void Perform(const ForkServer::StartServer& start);
  void Perform(const ForkServer::EndServer& end);
  void Perform(const ForkServer::Note& note);
  void OnEnded();
  // Takes it off the loop; what it has written is in its files.
  SpawnedProcess Release();
  bool lives() const { return process_.pidfd.valid(); }

  const Options options_;
  EventLoop* const loop_;
  ProcessRunner* const runner_;
  WriterThread* const files_;
  ControlSocket* const control_;
  const std::function<void(ForkServerState)> on_change_;

  ForkServer core_;
  std::deque<std::pair<ForkServer::Number, LocalRank>> waiting_;  // it was not asked for them yet
  std::set<ForkServer::Number> asked_;
  SpawnedProcess process_;
  std::unique_ptr<LogPump> pump_;
  bool gives_way_ = false;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_STANDBYS_FORK_SERVER_PROCESS_H_
