// The events of a Supervisor. Plain values.
#ifndef DDPRUN_LAUNCHER_CORE_SUPERVISOR_EVENTS_H_
#define DDPRUN_LAUNCHER_CORE_SUPERVISOR_EVENTS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

// A scope of names, like std::ios_base: Supervisor::WorkerEnded is one of them.
struct SupervisorEvents {
  // The agent begins to connect. Once; a signal, Superseded or WorkersLost may come before.
  struct AgentStarted {};
  // A session is open. An earlier one was lost before.
  struct SessionOpened {};
  struct Received {
    Header header;
    RendezvousMessage message;
  };
  // The session broke, or an attempt to open one failed.
  struct SessionLost {
    std::string reason;
    // The connection was refused, so at some moment after `attempt_started_at` no rendezvous
    // listened there. The next rendezvous starts later, and gives every agent a whole lease from
    // its start.
    bool refused = false;
    TimePoint attempt_started_at{};
    bool denied = false;  // one side does not accept the other side's credentials
    // This agent may start the rendezvous itself. But at every endpoint the started rendezvous has
    // ended, and the next one would end in the same way.
    bool useless = false;
  };
  // The answer to PrepareFolders. `error` says why the folder of `local_rank` could not be made.
  struct FoldersReady {
    Generation generation;
    LocalRank local_rank;
    std::string error;  // "": all folders exist
  };
  // The worker's process has executed its program, or was killed before it could.
  struct WorkerSpawned {
    LocalRank local_rank;
    int pid = 0;
  };
  struct SpawnFailed {
    LocalRank local_rank;
    int exit_code = 0;       // 126 or 127, like a shell's
    std::string reason;      // "./trian: no such file"
    bool permanent = false;  // trying again cannot help
  };
  // The worker sent a control message that has no event of its own here.
  struct WorkerSpoke {
    LocalRank local_rank;
    bool checkpoints = false;  // the message was about a state: the worker can make a checkpoint
    // False: this message (TELLS, or a phase of the program's own) does not show that the worker
    // also reads messages.
    bool listens = true;
  };
  // Whether the worker can make a checkpoint. Without a checkpoint folder it cannot, and nobody
  // waits for one.
  struct WorkerSaves {
    LocalRank local_rank;
    bool saves = false;
  };
  // The worker can leave this generation and continue in the next one: AskWorkersToLeave.
  struct WorkerStays {
    LocalRank local_rank;
  };
  // A worker has shown that its program can be a warm standby.
  struct WorkerCanStandBy {};
  // The answer to StartStandbys: all standbys wait, one has ended or cannot be started, or
  // kStandbysLimit is over.
  struct StandbysStarted {};
  // The worker has left its generation, and no longer holds any of the generation's resources.
  struct WorkerLeft {
    LocalRank local_rank;
  };
  // The worker has saved this step, as it reports over the control socket.
  struct CheckpointReported {
    LocalRank local_rank;
    std::int64_t step = 0;
  };
  // A checkpoint of this step could not be saved. `failures`: the worker's own count so far.
  struct CheckpointFailureReported {
    LocalRank local_rank;
    std::int64_t step = 0;
    std::int64_t failures = 0;
    std::string reason;
  };
  // A checkpoint of this step is damaged.
  struct CheckpointDamageReported {
    LocalRank local_rank;
    std::int64_t step = 0;
    std::string text;
  };
  struct StepReported {
    LocalRank local_rank;
    std::int64_t step = 0;
  };
  struct ErrorReported {
    LocalRank local_rank;
    std::string kind;
    std::string text;
  };
  struct WorkerEnded {
    LocalRank local_rank;
    ExitStatus status;
    std::vector<std::string> stderr_tail;
    std::int64_t ended_at_ms = 0;  // wall clock, for people
    bool oom_killed = false;
  };
  // The answer to ReadErrorFile. `text` "": no message in the file, or it was not read in time.
  struct ErrorFileRead {
    Generation generation;
    LocalRank local_rank;
    std::string text;
  };
  struct SignalReceived {
    int signo = 0;
    bool durable = false;  // this node knows of a durable state
  };
  // The job runs elsewhere with a later requeue number.
  struct Superseded {
    std::string reason;
  };
  // The answers to ClearNode, ScanStates and OfferPort.
  struct NodeCleared {
    std::vector<StuckProcess> stuck{};  // SIGKILL has not ended them; StuckProcessEnded follows for
                                        // each
  };
  struct StatesFound {};
  struct PortOffered {
    int port = 0;  // 0: there is none
  };
  // The answers to OpenStore.
  struct StoreOpened {
    Generation generation;
  };
  struct StoreFailed {
    Generation generation;
    std::string reason;
  };
  // A process of this node looks for torch's store at another port than MASTER_PORT.
  struct StoreSoughtElsewhere {
    std::string where;  // host:port
  };
  // A process of NodeCleared::stuck has ended.
  struct StuckProcessEnded {
    int pid = 0;
  };
  // A restart has ended, or another one has interrupted it.
  struct RestartMeasured {
    RestartTimes times;
  };
  // This node's workers are at work, as StartWatch sees it. `took`: the time since the spawn.
  struct StartMeasured {
    Generation generation;
    Duration took{};
  };
  // The answer to TakeWorkerStacks.
  struct WorkerStacksTaken {
    Generation generation;
    StackRequestId request;
    EncodedStackTree tree;
  };
  // The guardian was killed, and every worker with it. Their exit codes are not known.
  struct WorkersLost {
    std::string reason;
  };
  struct Tick {};
  using Event =
      std::variant<AgentStarted, SessionOpened, Received, SessionLost, FoldersReady, WorkerSpawned,
                   SpawnFailed, WorkerSpoke, WorkerSaves, WorkerStays, WorkerCanStandBy,
                   StandbysStarted, WorkerLeft, CheckpointReported, CheckpointFailureReported,
                   CheckpointDamageReported, StepReported, ErrorReported, WorkerEnded,
                   ErrorFileRead, SignalReceived, Superseded, NodeCleared, StuckProcessEnded,
                   StatesFound, PortOffered, StoreOpened, StoreFailed, StoreSoughtElsewhere,
                   RestartMeasured, StartMeasured, WorkerStacksTaken, WorkersLost, Tick>;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_EVENTS_H_
