// The actions that a Supervisor decides and the agent performs. Plain values.
#ifndef DDPRUN_LAUNCHER_CORE_SUPERVISOR_ACTIONS_H_
#define DDPRUN_LAUNCHER_CORE_SUPERVISOR_ACTIONS_H_

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/core/supervisor_options.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// A scope of names, like std::ios_base: Supervisor::SpawnWorkers is one of them.
struct SupervisorActions {
  // Send this to the rendezvous on the open session. The agent fills in the states that this node
  // holds (Join, Stopped, HeldStates) and the last collectives of its workers (Stopped).
  struct Send {
    Header header;
    AgentMessage message;  // no Heartbeat
    bool operator==(const Send&) const = default;
  };
  // Send a heartbeat. It overtakes all other actions except the Join of its session. The agent
  // fills in its usage, and the states that this node holds if they have changed.
  struct SendHeartbeat {
    Header header;
    Heartbeat heartbeat;
    bool with_progress = false;  // the agent also fills in the running workers' progress
    Duration round_trip{};       // of the last answered heartbeat, for Heartbeat::usage
    bool operator==(const SendHeartbeat&) const = default;
  };
  // End all processes that the workers have left behind. Answer: NodeCleared, when no process is
  // left, after 2 s at the latest. NodeCleared names the processes that SIGKILL did not end.
  // `may_be_exiting`: exiting workers need not always be gone (docs/internals/guardian.md).
  struct ClearNode {
    bool may_be_exiting = false;
    bool operator==(const ClearNode&) const = default;
  };
  // No worker runs: find out which states are on the disk. Answer: StatesFound, however long it
  // takes, unless workers start first. Until then Join and Stopped say that states are pending.
  struct ScanStates {
    RunId run_id{};  // of LookAgain; 0: none
    bool operator==(const ScanStates&) const = default;
  };
  // Hold a port for torch's store, in case rank 0 will run here. It must be a new port if no worker
  // runs and workers have already used the last one. Answer: PortOffered.
  struct OfferPort {
    bool workers_running = false;
    bool operator==(const OfferPort&) const = default;
  };
  // Rank 0 of this generation is here: serve an empty store for torch on this port, in place of the
  // earlier store. Answer: StoreOpened, when clients can connect, or StoreFailed.
  struct OpenStore {
    Generation generation;
    std::string master_addr;
    int port = 0;
    int world_size = 0;
    bool operator==(const OpenStore&) const = default;
  };
  // End the store that was opened last.
  struct CloseStore {
    bool operator==(const CloseStore&) const = default;
  };
  // Start a standby for each local rank. Answer: StandbysStarted, within kStandbysLimit.
  struct StartStandbys {
    bool operator==(const StartStandbys&) const = default;
  };
  // This node's part of the job is over: end the standbys.
  struct EndStandbys {
    bool operator==(const EndStandbys&) const = default;
  };
  // Make the folders of this node's workers in the run folder (logs, error files). Answer:
  // FoldersReady, however long it takes. Only SpawnWorkers waits for it.
  struct PrepareFolders {
    Generation generation;
    Rank first_rank;
    bool operator==(const PrepareFolders&) const = default;
  };
  // Read the error file of a failed worker. Answer: ErrorFileRead within 0.5 s, in the order of the
  // requests.
  struct ReadErrorFile {
    Generation generation;
    LocalRank local_rank;
    bool operator==(const ReadErrorFile&) const = default;
  };
  // Start all workers of this node, one after the other. Other actions continue meanwhile. Answers:
  // WorkerSpawned or SpawnFailed for each worker, in any order. An answer may take long, because
  // the program may be on a disk that does not answer. A SignalWorkers before the answer goes to
  // the worker's process, if there is one already.
  struct SpawnWorkers {
    Generation generation;
    Assignment assignment;
    bool operator==(const SpawnWorkers&) const = default;
  };
  // Every worker of this node has been started.
  struct AllWorkersRun {
    bool operator==(const AllWorkersRun&) const = default;
  };
  // Start no more workers of this generation. Comes once for each Start, before the workers are
  // ended. Answer: SpawnFailed for each worker that was not started.
  struct GenerationEnded {
    bool operator==(const GenerationEnded&) const = default;
  };
  // Send the signal to the process groups of these workers.
  struct SignalWorkers {
    int signo = 0;
    std::vector<LocalRank> local_ranks;
    bool operator==(const SignalWorkers&) const = default;
  };
  // Ask these workers, over the control socket, to make a checkpoint now.
  struct AskWorkersToSave {
    std::vector<LocalRank> local_ranks;
    bool operator==(const AskWorkersToSave&) const = default;
  };
  // The generation is over: ask these workers to leave it. Answer: WorkerLeft for each, or
  // WorkerEnded.
  struct AskWorkersToLeave {
    std::vector<LocalRank> local_ranks;
    bool operator==(const AskWorkersToLeave&) const = default;
  };
  // Copy the stacks of these workers. Answer: WorkerStacksTaken, however long it takes.
  struct TakeWorkerStacks {
    struct Worker {
      Rank rank;
      int pid = 0;
      bool operator==(const Worker&) const = default;
    };
    Generation generation;
    StackRequestId request;
    std::vector<Worker> workers;
    bool operator==(const TakeWorkerStacks&) const = default;
  };
  // The rendezvous has reported a hang: show the stacks of all ranks to a person, and keep them in
  // a file.
  struct ShowHangStacks {
    Generation generation;
    HangStacks stacks;
    bool operator==(const ShowHangStacks&) const = default;
  };
  // The guardian kills every worker of this node at `at`, if the agent has not done it. Replaces
  // the earlier time; nullopt: the guardian does not kill.
  struct SetFence {
    std::optional<TimePoint> at;
    bool operator==(const SetFence&) const = default;
  };
  // A line of the log.
  struct Note {
    std::string text;
    bool operator==(const Note&) const = default;
  };
  // The claim of a run's rank 0 on the folder of checkpoints.
  struct FolderClaim {
    Generation generation;
    RunId run_id;
    bool operator==(const FolderClaim&) const = default;
  };
  // The last action: no worker is left, or the Note before it names the remaining ones.
  struct Exit {
    Verdict verdict;
    // Rank 0 of the job's last generation ran here: release its folder of checkpoints.
    std::optional<FolderClaim> claim{};
    bool operator==(const Exit&) const = default;
  };
  using Action =
      std::variant<Send, SendHeartbeat, ClearNode, ScanStates, OfferPort, OpenStore, CloseStore,
                   StartStandbys, EndStandbys, PrepareFolders, SpawnWorkers, AllWorkersRun,
                   GenerationEnded, ReadErrorFile, SignalWorkers, AskWorkersToSave,
                   AskWorkersToLeave, TakeWorkerStacks, ShowHangStacks, SetFence, Note, Exit>;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_ACTIONS_H_
