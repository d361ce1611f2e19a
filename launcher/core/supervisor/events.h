// What happens to the workers of a node: the events of its Supervisor. Plain values.
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
  // First, once: the agent begins to connect.
  struct AgentStarted {};
  // A session is open. The one before it, if any, was lost.
  struct SessionOpened {};
  struct Received {
    Header header;
    RendezvousMessage message;
  };
  // The session broke, or one more attempt to open one failed.
  struct SessionLost {
    std::string reason;
    // The connection was refused: nobody listened there at a moment after `attempt_started_at`, so
    // the next rendezvous gives every agent a whole lease from later than that.
    bool refused = false;
    TimePoint attempt_started_at{};
    bool denied = false;  // one side does not take the other's credentials
  };
  // The folders of a generation exist, or one could not be made: `error` says why, `local_rank`
  // whose.
  struct FoldersReady {
    Generation generation;
    LocalRank local_rank;
    std::string error;  // "": all are there
  };
  // Its program runs.
  struct WorkerSpawned {
    LocalRank local_rank;
    int pid = 0;
  };
  struct SpawnFailed {
    LocalRank local_rank;
    int exit_code = 0;       // 126 or 127, as a shell would give
    std::string reason;      // "./trian: no such file"
    bool permanent = false;  // the command itself cannot be executed, today or tomorrow
  };
  // The worker said something over the control socket that has no event of its own here, and not
  // of its progress alone (a step, a phase of the program's own): it may listen as well.
  struct WorkerSpoke {
    LocalRank local_rank;
    bool checkpoints = false;  // and it was about a state: it can be asked for a checkpoint
    bool listens = true;       // false: it may only tell, and hear nothing
  };
  // The worker can leave this generation, and go on in the next one: AskWorkersToLeave.
  struct WorkerStays {
    LocalRank local_rank;
  };
  // It has left, and holds nothing of the generation any more.
  struct WorkerLeft {
    LocalRank local_rank;
  };
  // The worker reported it over the control socket.
  struct CheckpointReported {
    LocalRank local_rank;
    std::int64_t step = 0;
  };
  // It could not be saved; `failures` so far, as the worker counts them.
  struct CheckpointFailureReported {
    LocalRank local_rank;
    std::int64_t step = 0;
    std::int64_t failures = 0;
    std::string reason;
  };
  // It is there, and not whole.
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
  // What a worker of this generation left in its error file; "": nothing, or it could not be read
  // in time.
  struct ErrorFileRead {
    Generation generation;
    LocalRank local_rank;
    std::string text;
  };
  struct SignalReceived {
    int signo = 0;
    bool durable = false;  // this node knows of a state on some disk
  };
  // A later life of this job runs, and this one did not hear of it.
  struct Superseded {
    std::string reason;
  };
  // The answers to ClearNode, ScanStates and OfferPort. `port` is 0 where there is none.
  struct NodeCleared {
    std::vector<StuckProcess> stuck{};  // SIGKILL has not ended them; StuckProcessEnded follows
  };
  struct StatesFound {};
  struct PortOffered {
    int port = 0;
  };
  // The answers to OpenStore.
  struct StoreOpened {
    Generation generation;
  };
  struct StoreFailed {
    Generation generation;
    std::string reason;
  };
  // A process of this node looks for torch's store at another address than MASTER_PORT.
  struct StoreSoughtElsewhere {
    std::string where;  // host:port
  };
  // One of NodeCleared::stuck is gone.
  struct StuckProcessEnded {
    int pid = 0;
  };
  // A restart is over, or was cut short by another one.
  struct RestartMeasured {
    RestartTimes times;
  };
  // Every worker of this generation is at work. `took`: since they were spawned.
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
  // The guardian was killed, and with it every worker. How they ended is lost.
  struct WorkersLost {
    std::string reason;
  };
  struct Tick {};
  using Event =
      std::variant<AgentStarted, SessionOpened, Received, SessionLost, FoldersReady, WorkerSpawned,
                   SpawnFailed, WorkerSpoke, WorkerStays, WorkerLeft, CheckpointReported,
                   CheckpointFailureReported, CheckpointDamageReported, StepReported, ErrorReported,
                   WorkerEnded, ErrorFileRead, SignalReceived, Superseded, NodeCleared,
                   StuckProcessEnded, StatesFound, PortOffered, StoreOpened, StoreFailed,
                   StoreSoughtElsewhere, RestartMeasured, StartMeasured, WorkerStacksTaken,
                   WorkersLost, Tick>;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_EVENTS_H_
