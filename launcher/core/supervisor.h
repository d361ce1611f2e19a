// Supervisor: decides what happens to the workers of one node.
//
// A pure state machine. It does no I/O, reads no clock and owns no thread: an event and the time go
// in, actions come out. Its owner (launcher/agent) carries the actions out, in order, on the
// agent's loop, and feeds back what came of them.
//
//     Joining ──▶ Spawning ──▶ Running ──▶ Stopping ──▶ Joining (the next generation)
//        │            │           │            ├──────▶ Done     (the rendezvous said: finished)
//        └────────────┴───────────┴─▶ Leaving  ├──────▶ Failed   (no rendezvous, or refused)
//                                        └─────┴──────▶ Failed   (128 + signal)
//
// docs/architecture.md has the diagram with every event.
#ifndef DDPRUN_LAUNCHER_CORE_SUPERVISOR_H_
#define DDPRUN_LAUNCHER_CORE_SUPERVISOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

enum class SupervisorState { kJoining, kSpawning, kRunning, kStopping, kLeaving, kDone, kFailed };
const char* ToString(SupervisorState state);

// How the job ended, as seen by this agent: what --report holds and what the exit code says.
struct Verdict {
  std::string outcome;  // succeeded | failed | left | refused | unreachable
  int exit_code = 0;
  std::string reason;
  int restarts_used = 0;
  std::optional<RootCause> root_cause;
  std::vector<RootCause> earlier;  // of the generations before, oldest first

  bool operator==(const Verdict&) const = default;
};

struct SupervisorOptions {
  std::string job;
  std::uint32_t epoch = 0;
  Incarnation incarnation;
  JobSpec spec;
  NodeSpec node;
  Duration stop_grace = std::chrono::seconds(10);  // from the first signal to SIGKILL
  // After SIGKILL: a worker that is still there (in an uninterruptible wait) is named and left.
  Duration kill_grace = std::chrono::seconds(2);
  // A second SIGINT or SIGQUIT ends the grace, unless it comes with the first: some senders signal
  // the process and its group.
  Duration repeat_guard = std::chrono::milliseconds(300);
};

class Supervisor {
 public:
  // ---- events ----
  struct AgentStarted {};
  struct Received {
    Header header;
    RendezvousMessage message;
  };
  struct SessionLost {
    std::string reason;
    bool refused = false;  // trying again is of no use: the credentials
  };
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
  // The worker reported it over the control socket.
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
    std::string error_file_text;   // what it wrote to TORCHELASTIC_ERROR_FILE, or empty
    std::int64_t ended_at_ms = 0;  // wall clock, for people
    bool oom_killed = false;
  };
  struct SignalReceived {
    int signo = 0;
  };
  struct Tick {};
  using Event = std::variant<AgentStarted, Received, SessionLost, WorkerSpawned, SpawnFailed,
                             StepReported, ErrorReported, WorkerEnded, SignalReceived, Tick>;

  // ---- actions ----
  // To the rendezvous. `offered_port` of Join and Drained is 0: the agent fills in a port it holds.
  struct Send {
    Header header;
    AgentMessage message;
    bool operator==(const Send&) const = default;
  };
  // Start every worker of this node, by local rank; Step(WorkerSpawned or SpawnFailed) for each
  // before anything else, and stop after a SpawnFailed: the generation is over then.
  struct SpawnWorkers {
    Generation generation;
    Assignment assignment;
    bool operator==(const SpawnWorkers&) const = default;
  };
  // To the process groups of these workers.
  struct SignalWorkers {
    int signo = 0;
    std::vector<LocalRank> local_ranks;
    bool operator==(const SignalWorkers&) const = default;
  };
  // Something a person should read.
  struct Note {
    std::string text;
    bool operator==(const Note&) const = default;
  };
  // The last action ever: no worker is left (or the Note before says which).
  struct Exit {
    Verdict verdict;
    bool operator==(const Exit&) const = default;
  };
  using Action = std::variant<Send, SpawnWorkers, SignalWorkers, Note, Exit>;

  explicit Supervisor(SupervisorOptions options);

  // Handles one event. What does not fit the state is ignored, for the reason given in the code.
  std::vector<Action> Step(const Event& event, TimePoint now);

  // When to call Step(Tick) next, or nullopt while nothing is timed.
  std::optional<TimePoint> NextDeadline() const { return deadline_; }

  SupervisorState state() const { return state_; }
  bool ended() const {
    return state_ == SupervisorState::kDone || state_ == SupervisorState::kFailed;
  }
  // For messages that the agent sends by itself (heartbeats).
  Header header() const;

 private:
  struct Worker {
    int pid = 0;
    bool alive = false;
    std::optional<std::int64_t> step;
    std::string error_kind;
    std::string error_text;
  };

  void OnReceived(const Received& received, TimePoint now);
  void OnAssignment(const Header& header, const Assignment& assignment);
  void OnStart(const Header& header);
  void OnStop(const Header& header, const Stop& stop, TimePoint now);
  void OnWaiting(const Waiting& waiting);
  void OnFinished(const Finished& finished, TimePoint now);
  void OnRefused(const Refused& refused, TimePoint now);
  void OnSessionLost(const SessionLost& lost, TimePoint now);
  void OnWorkerSpawned(const WorkerSpawned& spawned);
  void OnSpawnFailed(const SpawnFailed& failed, TimePoint now);
  void OnWorkerEnded(const WorkerEnded& ended, TimePoint now);
  void OnSignal(const SignalReceived& signal, TimePoint now);
  void OnTick(TimePoint now);

  // Ends what runs with `signo`, then goes to Joining, or with a verdict to the end.
  void StopWorkers(SupervisorState next, int signo, TimePoint now);
  void SettleIfGone();
  void End(SupervisorState next, Verdict verdict);
  void Enter(SupervisorState next);

  WorkerExited ExitReport(LocalRank local_rank, ExitStatus status) const;
  Worker* Find(LocalRank local_rank);
  std::vector<LocalRank> Alive() const;
  void SendUp(AgentMessage message);
  void Say(std::string text);

  const SupervisorOptions options_;

  SupervisorState state_ = SupervisorState::kJoining;
  Generation generation_{-1};  // before the first assignment
  Assignment assignment_;
  std::vector<Worker> workers_;        // by local rank; of the current generation
  std::optional<Verdict> verdict_;     // what to end with when the workers are gone
  TimePoint signalled_at_;             // when Leaving began
  int stop_signal_ = 0;                // what the workers were sent last
  std::optional<TimePoint> deadline_;  // of Stopping and Leaving

  std::vector<Action> actions_;  // of the Step in progress
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_H_
