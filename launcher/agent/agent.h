// The agent: one node's part of a job, from Join to the last worker's end.
//
// It carries out what the Supervisor decides: spawns and signals workers, moves their output, talks
// to the rendezvous; and it feeds back what happened. Nothing about the job is decided here.
//
// Everything runs on the thread that calls Run(), on one event loop. gRPC's threads only post to
// it; writing to disks and terminals has threads of its own (launcher/os/output).
#ifndef DDPRUN_LAUNCHER_AGENT_AGENT_H_
#define DDPRUN_LAUNCHER_AGENT_AGENT_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/agent/checkpoint_scan.h"
#include "launcher/agent/node_workers.h"
#include "launcher/agent/owner_watch.h"
#include "launcher/agent/port_offer.h"
#include "launcher/agent/run_directory.h"
#include "launcher/agent/standbys.h"
#include "launcher/agent/start_watch.h"
#include "launcher/agent/worker_environment.h"
#include "launcher/config/job_config.h"
#include "launcher/core/error_files.h"
#include "launcher/core/node_states.h"
#include "launcher/core/restart_clock.h"
#include "launcher/core/still_watch.h"
#include "launcher/core/straggler_list.h"
#include "launcher/core/supervisor.h"
#include "launcher/os/control_socket.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/off_loop.h"
#include "launcher/os/output/console_writer.h"
#include "launcher/os/output/log_pump.h"
#include "launcher/os/output/writer_thread.h"
#include "launcher/os/process/process_runner.h"
#include "launcher/stacks/take_stacks.h"
#include "rendezvous/client/rendezvous_client.h"

namespace ddprun {

class Agent {
 public:
  struct Options {
    JobConfig config;
    std::string host;                  // this node's name, for people
    std::string address;               // this node's address, for the other nodes
    AgentId agent_id;                  // random, not 0
    std::vector<std::string> environ;  // NAME=value: what workers inherit
    std::string why_ineligible{};      // why this node must stay out of the job; empty: it may run
  };

  // All pointers must outlive the agent. `client` is not open yet.
  Agent(Options options, EventLoop* loop, ProcessRunner* runner, RendezvousClient* client,
        Console console, RunDirectory* run);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Runs this node's part of the job to its end. When it returns, no worker of ours is left and
  // every log file is written. The error is for what the agent cannot do without: its sockets.
  absl::StatusOr<Verdict> Run();

  // On the loop: a signal that the user or Slurm sent to the agent.
  void OnSignal(int signo);

  // On the loop: this process is about to stop (Ctrl-Z), or goes on. Workers are in process groups
  // of their own, and do what the agent does.
  void OnSuspend();
  void OnContinue();

  // The rendezvous has answered at some time.
  bool has_joined() const { return supervisor_.has_joined(); }

  // On the loop: the workers are out of reach (ProcessRunner's Unavailable). They are dead, and
  // this node leaves the job with exit code 70.
  void OnWorkersLost(const absl::Status& why);

 private:
  // How long starts and restarts take; for the report: the last restarts, and what the last
  // generation began with.
  struct Restarts {
    RestartClock clock;
    std::unique_ptr<StartWatch> start_watch;  // from Run() on
    std::deque<RestartTimes> times;
    std::optional<RestorePlan> restore;
  };
  // What this node holds of the training.
  struct Held {
    NodeStates states;
    std::optional<CheckpointScan> scan;  // in progress
    EventLoop::TimerId scan_warning = 0;
    // With checkpoint.start_anew, from the first scan on: what was in the folder before the job.
    std::optional<std::set<std::string>> before;
    std::set<std::string> problems;    // that were logged
    std::optional<OffLoop> releasing;  // the folder of checkpoints, at the end
  };

  // What is known of how the workers of this generation get on.
  struct Told {
    StragglerList stragglers;
    StillWatch still;
    bool of_rank_0 = false;  // rank 0 runs on this node
    // The log has said that they tell nothing. True from the start with --hang-timeout off.
    bool said_silent = false;
    EventLoop::TimerId silence = 0;       // until it says so
    std::map<int, ProcessFacts> facts{};  // by pid, as they were read last
    OffLoop stack_taker;
    stacks::StackUrgency urgency = stacks::StackUrgency::kBesideTraining;
    int taking_stacks = 0;      // requests in progress
    TimePoint copying_until{};  // at the latest, as far as FactsOf() believes
    std::optional<HangStacks> hang{};
    ErrorFiles error_files{};
  };

  void Feed(const Supervisor::Event& event);
  void PerformQueued();
  void WatchOwner();
  void ArmDeadline();
  void EndScan();

  void Perform(Supervisor::Send& send);
  void Perform(const Supervisor::ClearNode& clear);
  void Perform(const Supervisor::ScanStates& scan);
  void OnScanned(ScanResult result);
  void Perform(const Supervisor::OfferPort& offer);
  void Perform(const Supervisor::EndStandbys& end);
  void Perform(const Supervisor::PrepareFolders& prepare);
  void Perform(const Supervisor::ReadErrorFile& read);
  void Perform(const Supervisor::SpawnWorkers& spawn);
  void Perform(const Supervisor::SignalWorkers& signal);
  void Perform(const Supervisor::AskWorkersToSave& ask);
  void Perform(const Supervisor::TakeWorkerStacks& take);
  void Perform(const Supervisor::ShowHangStacks& show);
  void Perform(const Supervisor::SetFence& fence);
  void Perform(const Supervisor::Note& note);
  void Perform(const Supervisor::Exit& exit);
  // Quits the loop when it has, or when the disk does not answer.
  void ReleaseClaim(const Supervisor::FolderClaim& claim);

  // Tries again after `pause`, which doubles, where the disk is full; until `give_up`.
  void MakeFolders(const Supervisor::PrepareFolders& prepare, EventLoop::Clock::time_point give_up,
                   std::chrono::milliseconds pause);
  // Where this node's worker with this local rank is: what is the same in every generation.
  WorkerPlace Place(LocalRank local_rank) const;
  // For the workers of a Python program: run_->python_path().
  void AddPythonModule();
  Standbys::Options StandbyOptions() const;
  NodeWorkers::Events WorkerEvents();
  absl::Status Start(const Supervisor::SpawnWorkers& spawn, LocalRank local_rank);
  // After each start: the last one ends the node's.
  void LookWhetherAllRun();
  void FailSpawn(LocalRank local_rank, const absl::Status& status);
  void OnWorkerEnded(const NodeWorkers::Ended& worker);
  void OnControlMessage(pid_t peer, const ControlMessage& message);
  // --auto-step tells their steps: they are judged for hangs from their start on.
  bool WillTellSteps() const;
  // For a heartbeat, while workers run.
  void LookAtProgress(AgentMessage* message);
  // To a Stopped: the last collectives of the workers.
  void AddCalls(Supervisor::Send* send);
  // Says once that hangs are not noticed, where no worker of rank 0's node tells anything.
  void AwaitFirstWord();
  ProcessFacts FactsOf(int pid);
  void OnStandbyMessage(pid_t peer, const ControlMessage& message);
  void OnStraggler(const StragglerMsg& straggler);
  // Of a restart that is over, where one is: for people and for the report.
  std::optional<RestartTimes> TakeRestartTimes();
  void OnRendezvousEvent(const RendezvousClient::Event& event);

  // Constant after construction.
  const Options options_;
  EventLoop* const loop_;
  ProcessRunner* const runner_;
  RendezvousClient* const client_;
  const Console console_;
  RunDirectory* const run_;

  Supervisor supervisor_;
  Restarts restarts_;
  Told told_;
  Held held_;
  PortOffer port_;
  OffLoop disk_;  // run folders, links, error files
  WriterThread files_;
  // From Run() on.
  std::unique_ptr<ControlSocket> control_;
  std::unique_ptr<Standbys> standbys_;
  std::unique_ptr<NodeWorkers> workers_;
  std::deque<Supervisor::Action> actions_;  // decided and not yet performed
  bool performing_ = false;
  std::optional<OwnerWatch> owner_watch_;
  std::optional<Verdict> verdict_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_AGENT_AGENT_H_
