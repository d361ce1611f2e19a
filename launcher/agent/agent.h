// The agent: one node's part of a job, from Join to the last worker's end.
//
// The Supervisor decides; the agent acts: it spawns and signals workers, moves their output, talks
// to the rendezvous, and feeds events back. It decides nothing about the job.
//
// The agent runs on the thread that calls Run(), on one event loop. gRPC's threads only post to the
// loop. Other threads do the work that may hang, such as reading and writing files, and post the
// results to the loop: docs/internals/architecture.md, "Threads".
#ifndef DDPRUN_LAUNCHER_AGENT_AGENT_H_
#define DDPRUN_LAUNCHER_AGENT_AGENT_H_

#include <deque>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/agent/agent_options.h"
#include "launcher/agent/checkpoints/held_checkpoints.h"
#include "launcher/agent/master_store.h"
#include "launcher/agent/node_workers.h"
#include "launcher/agent/run/run_directory.h"
#include "launcher/agent/run/run_files.h"
#include "launcher/agent/standbys/standbys.h"
#include "launcher/agent/start_watch.h"
#include "launcher/agent/usage/usage_watch.h"
#include "launcher/agent/worker_programs.h"
#include "launcher/agent/worker_watch.h"
#include "launcher/core/restart_clock.h"
#include "launcher/core/supervisor.h"
#include "launcher/os/control_socket.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/output/console_writer.h"
#include "launcher/os/output/writer_thread.h"
#include "launcher/os/process/process_runner.h"
#include "rendezvous/client/rendezvous_client.h"

namespace ddprun {

class Agent {
 public:
  using Options = AgentOptions;

  // All pointers must outlive the agent. `client` is not open yet.
  Agent(Options options, EventLoop* loop, ProcessRunner* runner, RendezvousClient* client,
        Console console, RunDirectory* run);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Runs this node's part of the job to its end. When Run() returns, the log files are written. No
  // worker of this node is left, except processes that SIGKILL did not end. If a disk is full, or
  // needs more than 30 s for the rest of the log files, the rest is missing. Error: the control
  // socket could not be made.
  absl::StatusOr<Verdict> Run();

  // On the loop: a signal that the user or Slurm sent to the agent.
  void OnSignal(int signo);

  // On the loop: this process is about to be stopped (Ctrl-Z), or continues. Ctrl-Z does not reach
  // the workers' process groups, so the agent stops and continues the workers.
  void OnSuspend();
  void OnContinue();

  // The rendezvous has answered at least once.
  bool has_joined() const { return supervisor_ != nullptr && supervisor_->has_joined(); }

  // On the loop: call it when ProcessRunner returned Unavailable. The workers are then dead. This
  // node leaves the job with exit code 70, unless the rendezvous has already ended the job, or this
  // node's part of it.
  void OnWorkersLost(const absl::Status& why);

 private:
  // Durations of starts and restarts, and the facts of this node for the report.
  struct History {
    RestartClock clock;
    std::unique_ptr<StartWatch> start_watch{};  // from Run() on
    std::deque<RestartTimes> restarts{};        // the newest ones
    std::optional<RestorePlan> restore{};       // of the last generation
    std::optional<HangStacks> hang{};           // of the last hang verdict
  };

  void Feed(const Supervisor::Event& event);
  void PerformDecided();
  // Begins to join the job. With a fork server, Run() calls it when the first standbys wait, when
  // none can be expected, or after a time limit.
  void Join();
  void ArmDeadline();

  void Perform(Supervisor::Send& send);
  void Perform(Supervisor::SendHeartbeat& send);
  void Perform(const Supervisor::ClearNode& clear);
  void Perform(const Supervisor::ScanStates& scan);
  void Perform(const Supervisor::OfferPort& offer);
  void Perform(const Supervisor::OpenStore& open);
  void Perform(const Supervisor::CloseStore& close);
  void Perform(const Supervisor::StartStandbys& start);
  void Perform(const Supervisor::EndStandbys& end);
  void Perform(const Supervisor::PrepareFolders& prepare);
  void Perform(const Supervisor::ReadErrorFile& read);
  void Perform(const Supervisor::SpawnWorkers& spawn);
  void Perform(const Supervisor::AllWorkersRun& run);
  void Perform(const Supervisor::GenerationEnded& ended);
  void Perform(const Supervisor::SignalWorkers& signal);
  void Perform(const Supervisor::AskWorkersToSave& ask);
  void Perform(const Supervisor::AskWorkersToLeave& ask);
  void Perform(const Supervisor::TakeWorkerStacks& take);
  void Perform(const Supervisor::ShowHangStacks& show);
  void Perform(const Supervisor::SetFence& fence);
  void Perform(const Supervisor::Note& note);
  void Perform(const Supervisor::Exit& exit);
  // Begins to release the checkpoint folder. Quits the loop when the folder is released, or after a
  // second if the disk does not answer. False: there is no folder.
  bool Release(const Supervisor::FolderClaim& claim);

  NodeWorkers::Events WorkerEvents();
  void OnWorkerNotStarted(LocalRank local_rank, const absl::Status& why);
  void OnWorkerEnded(const NodeWorkers::Ended& worker);
  void OnControlMessage(const ControlPeer& peer, const ControlMessage& message);
  void OnStandby(LocalRank local_rank, const StandbyMsg& standby);
  void OnCheckpoint(LocalRank local_rank, const CheckpointMsg& checkpoint);
  void OnSnapshot(LocalRank local_rank, const SnapshotMsg& snapshot);
  void OnPhase(LocalRank local_rank, const PhaseMsg& phase, TimePoint now);
  // For a message from a process that belongs to no worker: a standby, the fork server, or another
  // process. ControlSocket attributes messages of a worker's descendants to the worker.
  void OnMessageOfAnother(const ControlPeer& peer, const ControlMessage& message);
  // The times of a complete restart, for the log and the report; nullopt: no restart has completed
  // since the last call.
  std::optional<RestartTimes> TakeRestartTimes();
  void OnRendezvousEvent(const RendezvousClient::Event& event);

  // Constant after construction.
  const Options options_;
  EventLoop* const loop_;
  ProcessRunner* const runner_;
  RendezvousClient* const client_;
  const Console console_;
  RunDirectory* const run_;

  History history_;
  HeldCheckpoints checkpoints_;
  MasterStore master_;
  RunFiles run_files_;
  WriterThread files_;
  // From Run() on.
  std::unique_ptr<ControlSocket> control_;
  std::unique_ptr<WorkerPrograms> programs_;
  std::unique_ptr<Standbys> standbys_;
  std::unique_ptr<NodeWorkers> workers_;
  std::unique_ptr<WorkerWatch> watch_;
  std::unique_ptr<UsageWatch> usage_;
  std::unique_ptr<Supervisor> supervisor_;
  bool performing_ = false;
  std::optional<Verdict> verdict_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_AGENT_H_
