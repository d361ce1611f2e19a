// What a Supervisor decides: the actions for the agent. Plain values.
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
  // To the rendezvous, on the session that is open. Join, Stopped and HeldStates say which states
  // this node holds, and Stopped what the last collectives of its workers were: the agent fills
  // that in.
  struct Send {
    Header header;
    AgentMessage message;  // no Heartbeat
    bool operator==(const Send&) const = default;
  };
  // The same for a heartbeat, which is done before all else that is to be done, but after the Join
  // of its session. The agent fills in which states this node holds, where that has changed.
  struct SendHeartbeat {
    Header header;
    Heartbeat heartbeat;
    bool with_progress = false;  // a generation runs: and how far its workers are
    Duration round_trip{};       // of the last one that was answered: the agent puts it in, too
    bool operator==(const SendHeartbeat&) const = default;
  };
  // End what the workers have left behind, and give up whoever does not end. Step(NodeCleared) when
  // no process of theirs is left, or within 2 s: the rendezvous is about to hear which are.
  struct ClearNode {
    bool operator==(const ClearNode&) const = default;
  };
  // No worker runs: look which states there are on the disk. Step(StatesFound), however long it
  // takes; a Join or Stopped that goes out before says that the states are pending.
  struct ScanStates {
    RunId run_id{};  // of LookAgain; 0: none
    bool operator==(const ScanStates&) const = default;
  };
  // Hold a port for the store of rank 0, should it run here; a fresh one where no worker runs and
  // the last one was given to workers. Step(PortOffered).
  struct OfferPort {
    bool workers_running = false;
    bool operator==(const OfferPort&) const = default;
  };
  // Rank 0 of this generation is here: serve an empty store for torch on this port, in place of the
  // store before. Step(StoreOpened) when clients of all nodes can connect, or StoreFailed.
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
  // This node's part of the job is over: no standby has anything to wait for.
  struct EndStandbys {
    bool operator==(const EndStandbys&) const = default;
  };
  // Make the folders of this node's workers. Step(FoldersReady), however long it takes; nothing
  // waits for it but SpawnWorkers.
  struct PrepareFolders {
    Generation generation;
    Rank first_rank;
    bool operator==(const PrepareFolders&) const = default;
  };
  // Read what a worker that has failed left in its error file. Step(ErrorFileRead) within half a
  // second, and in the order in which they were asked for.
  struct ReadErrorFile {
    Generation generation;
    LocalRank local_rank;
    bool operator==(const ReadErrorFile&) const = default;
  };
  // Start every worker of this node, one after the other; what else is to be done goes on beside
  // it. Step(WorkerSpawned or SpawnFailed) for each, in any order and however long it takes: a
  // program may be on a disk that does not answer. A SignalWorkers that comes before that is for
  // what is there of it.
  struct SpawnWorkers {
    Generation generation;
    Assignment assignment;
    bool operator==(const SpawnWorkers&) const = default;
  };
  // Every worker of this node has been started.
  struct AllWorkersRun {
    bool operator==(const AllWorkersRun&) const = default;
  };
  // Once for each Start, before its workers are ended. Start no more workers; Step(SpawnFailed) for
  // each worker that has not been started.
  struct GenerationEnded {
    bool operator==(const GenerationEnded&) const = default;
  };
  // To the process groups of these workers.
  struct SignalWorkers {
    int signo = 0;
    std::vector<LocalRank> local_ranks;
    bool operator==(const SignalWorkers&) const = default;
  };
  // Over the control socket, to workers that speak it: make a checkpoint now.
  struct AskWorkersToSave {
    std::vector<LocalRank> local_ranks;
    bool operator==(const AskWorkersToSave&) const = default;
  };
  // The generation is over: these are to leave it. Step(WorkerLeft) for each, unless it ends.
  struct AskWorkersToLeave {
    std::vector<LocalRank> local_ranks;
    bool operator==(const AskWorkersToLeave&) const = default;
  };
  // Copy the stacks of these workers. Step(WorkerStacksTaken), however long it takes.
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
  // No rank moves: show a person where all of them are, and keep it.
  struct ShowHangStacks {
    Generation generation;
    HangStacks stacks;
    bool operator==(const ShowHangStacks&) const = default;
  };
  // From `at` on no worker of this node may run, whatever happens to the agent until then; nullopt:
  // no such time. Replaces the one before. For the guardian, which kills in the agent's place.
  struct SetFence {
    std::optional<TimePoint> at;
    bool operator==(const SetFence&) const = default;
  };
  // Something a person should read.
  struct Note {
    std::string text;
    bool operator==(const Note&) const = default;
  };
  // Rank 0 of a run, which may have claimed the folder of checkpoints.
  struct FolderClaim {
    Generation generation;
    RunId run_id;
    bool operator==(const FolderClaim&) const = default;
  };
  // The last action ever: no worker is left (or the Note before says which).
  struct Exit {
    Verdict verdict;
    // Its rank 0 ran here, and no generation of the job comes after it: the folder is to be
    // released.
    std::optional<FolderClaim> claim{};
    bool operator==(const Exit&) const = default;
  };
  using Action =
      std::variant<Send, SendHeartbeat, ClearNode, ScanStates, OfferPort, OpenStore, CloseStore,
                   EndStandbys, PrepareFolders, SpawnWorkers, AllWorkersRun, GenerationEnded,
                   ReadErrorFile, SignalWorkers, AskWorkersToSave, AskWorkersToLeave,
                   TakeWorkerStacks, ShowHangStacks, SetFence, Note, Exit>;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_ACTIONS_H_
