// The fork server of this node: a Python interpreter that has imported the modules of --preload and
// forks standbys (launcher/python/fork_server.py). It is started below the guardian, like a worker.
//
// ForkServer decides; this class acts. It sends FORK=n over the server's connection to the control
// socket, with the descriptor of a file that contains CPUs, program and arguments. The forked
// process becomes a child of the guardian at once, connects to the control socket and says
// FORKED=n. Then ProcessRunner::Adopt() tells the guardian to keep it. The process is not a child
// of the fork server, so the end of the server ends no standby. The output of the imported modules
// goes to separate files (RunDirectory::ForkServerFolder).
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
    // The content of FORK=n for a worker with this local rank (worker/contract/control.h).
    std::function<std::vector<std::string>(LocalRank)> order;
    std::string log_folder;
  };

  // All pointers must outlive this object. `on_change`: called on the loop when the state has
  // changed, also from within Feed() and Hear().
  ForkServerProcess(Options options, EventLoop* loop, ProcessRunner* runner, WriterThread* files,
                    ControlSocket* control, std::function<void(ForkServerState)> on_change);
  ~ForkServerProcess();
  ForkServerProcess(const ForkServerProcess&) = delete;
  ForkServerProcess& operator=(const ForkServerProcess&) = delete;

  void Feed(const ForkServer::Event& event);

  // Asks for a process. FORKED=number follows, or the state changes.
  void Ask(ForkServer::Number number, LocalRank local_rank);
  // Call it when the process was forked or is no longer needed. False: the process was not asked
  // for, or the request was lost with an earlier server.
  bool Answered(ForkServer::Number number);
  // Takes the message FORKSERVER. Ignores it unless `peer` is this server.
  void Hear(pid_t peer, const ForkServerMsg& message);

  // `trains`: workers train now, so the server imports at a lower priority (background_priority.h).
  void GiveWay(bool trains);
  // Signals its process group. Passes on the agent's SIGSTOP and SIGCONT.
  void Signal(int signo);
  // Call it when the guardian is dead: then the server is dead, too. Forgets the server.
  void Lose();

 private:
  // Limit of unanswered requests: more would not fit into the socket's buffer.
  static constexpr std::size_t kMostAsked = 32;

  void AskNext();
  void Perform(const ForkServer::StartServer& start);
  void Perform(const ForkServer::EndServer& end);
  void Perform(const ForkServer::Note& note);
  void OnEnded();
  // Reads the rest of the server's output, and ends the watch on the loop.
  SpawnedProcess Release();
  bool lives() const { return process_.pidfd.valid(); }

  const Options options_;
  EventLoop* const loop_;
  ProcessRunner* const runner_;
  WriterThread* const files_;
  ControlSocket* const control_;
  const std::function<void(ForkServerState)> on_change_;

  ForkServer core_;
  std::deque<std::pair<ForkServer::Number, LocalRank>> waiting_;  // not sent to the server yet
  std::set<ForkServer::Number> asked_;
  SpawnedProcess process_;
  std::unique_ptr<LogPump> pump_;
  bool gives_way_ = false;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_STANDBYS_FORK_SERVER_PROCESS_H_
