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
//     Spawning, Running, Stopping ──▶ Fenced ──▶ Joining         (the lease is over)
//     Running ──▶ Spawning   (no worker was left, and the rendezvous went on without hearing of it)
//
// docs/architecture.md has the diagram with every event, docs/leases.md the rule of the lease.
//
// A session may break and be replaced at any time; workers run on meanwhile. On each session the
// Supervisor sends Join first and then repeats what it had said in its generation; what it sends
// while there is no session is lost, and that is all right.
#ifndef DDPRUN_LAUNCHER_CORE_SUPERVISOR_H_
#define DDPRUN_LAUNCHER_CORE_SUPERVISOR_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/core/supervisor_options.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

enum class SupervisorState {
  kJoining,
  kSpawning,
  kRunning,
  kStopping,
  kLeaving,
  kFenced,  // the lease is over; the workers are dying of SIGKILL
  kDone,
  kFailed
};
const char* ToString(SupervisorState state);

class Supervisor {
 public:
  // ---- events ----
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
  // The folders of a generation are made, or could not be: `error` says why, of which worker.
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
  // One of NodeCleared::stuck is gone.
  struct StuckProcessEnded {
    int pid = 0;
  };
  // A restart is over, or was cut short by another one.
  struct RestartMeasured {
    RestartTimes times;
  };
  // Every worker of this generation is at work, so long after they were spawned.
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
  using Event = std::variant<AgentStarted, SessionOpened, Received, SessionLost, FoldersReady,
                             WorkerSpawned, SpawnFailed, WorkerSpoke, CheckpointReported,
                             CheckpointFailureReported, CheckpointDamageReported, StepReported,
                             ErrorReported, WorkerEnded, ErrorFileRead, SignalReceived, Superseded,
                             NodeCleared, StuckProcessEnded, StatesFound, PortOffered,
                             RestartMeasured, StartMeasured, WorkerStacksTaken, WorkersLost, Tick>;

  // ---- actions ----
  // To the rendezvous, on the session that is open. Join, Stopped, HeldStates and Heartbeat say
  // which states this node holds: the agent fills that in.
  struct Send {
    Header header;
    AgentMessage message;
    bool operator==(const Send&) const = default;
  };
  // End what the workers have left behind, and give up whoever does not end. Step(NodeCleared) when
  // no process of theirs is left, or within 2 s: the rendezvous is about to hear which are.
  struct ClearNode {
    bool operator==(const ClearNode&) const = default;
  };
  // No worker runs: look which states there are on the disk. Step(StatesFound), however long it
  // takes; a Join or Stopped that goes out before says that the states are pending.
  struct ScanStates {
    bool operator==(const ScanStates&) const = default;
  };
  // Hold a port for the store of rank 0, should it run here; a fresh one where no worker runs and
  // the last one was given to workers. Step(PortOffered).
  struct OfferPort {
    bool workers_running = false;
    bool operator==(const OfferPort&) const = default;
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
  // Start every worker of this node. Step(WorkerSpawned or SpawnFailed) for each, in any order and
  // however long it takes: a program may be on a disk that does not answer. A SignalWorkers that
  // comes before that is for what is there of it.
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
  // Over the control socket, to workers that speak it: make a checkpoint now.
  struct AskWorkersToSave {
    std::vector<LocalRank> local_ranks;
    bool operator==(const AskWorkersToSave&) const = default;
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
  using Action = std::variant<Send, ClearNode, ScanStates, OfferPort, EndStandbys, PrepareFolders,
                              SpawnWorkers, ReadErrorFile, SignalWorkers, AskWorkersToSave,
                              TakeWorkerStacks, ShowHangStacks, SetFence, Note, Exit>;

  explicit Supervisor(SupervisorOptions options);

  // Handles one event. What does not fit the state is ignored, for the reason given in the code.
  // Where the lease is over by `now`, the workers are killed before anything else is considered.
  std::vector<Action> Step(const Event& event, TimePoint now);

  // When to call Step(Tick) next, or nullopt while nothing is timed.
  std::optional<TimePoint> NextDeadline() const;

  SupervisorState state() const { return state_; }
  bool ended() const {
    return state_ == SupervisorState::kDone || state_ == SupervisorState::kFailed;
  }
  // Of what this node says now.
  Header header() const;
  // Of this node, since the agent's start.
  bool has_joined() const { return contact_.ever; }
  FailedCheckpoints failed_checkpoints() const;

 private:
  // The actions, in the order in which they were decided. What comes after ClearNode or OfferPort
  // waits for its answer, but for heartbeats.
  class Outbox {
   public:
    void Push(Action action);
    // Before all that waits: what comes after Exit is not done.
    void PushFirst(Action action);
    // Where workers were started since it was done last, or `always`.
    void Clear(bool always = false);
    // A Join or Stopped, and before it the port; where no worker runs, the states are looked for.
    void Report(Send send, bool workers_running);
    // Looks for states where what was found is old; nothing waits for it.
    void ScanAhead();
    // What is looked for from now on answers this request too.
    void Heard(LookId asked) { asked_ = asked; }
    // No worker runs: looks for states, whatever was found before, and owes them.
    void ScanAgain();
    // They leave things behind, and what was found on the disk will be old.
    void WorkersStart();
    // They were for a session that is over.
    void DropMessages();
    // Returns what the agent was to exit with, where that was decided.
    std::optional<Verdict> DropEverything();

    // False: it was not waited for.
    bool OnNodeCleared();
    // Set: the rendezvous waits for the states. The value names the look that found them.
    std::optional<LookId> OnStatesFound();
    // Of what was found, or of the scan in progress.
    LookId look() const { return scanning_ ? scan_look_ : found_look_; }
    void OnPortOffered(int port);

    // What is to be done now.
    std::vector<Action> Release();
    bool empty() const { return held_.empty(); }

   private:
    enum class Awaited { kNothing, kNodeCleared, kPortOffered };
    struct Held {
      Action action;
      Awaited answer = Awaited::kNothing;
      bool always = false;  // also where nothing seems to need it
    };
    std::deque<Held> held_;
    Awaited awaited_ = Awaited::kNothing;
    void MarkPendingStates(Action* action);

    bool scanning_ = false;
    bool scan_needed_ = true;
    bool owes_states_ = false;  // a message said that they are pending, or they were asked for
    bool again_ = false;        // the scan in progress began too early
    LookId asked_;              // by the rendezvous, last
    LookId scan_look_;
    LookId found_look_;
    bool clear_needed_ = false;
  };
  struct Worker {
    int pid = 0;
    bool alive = false;     // also while it is being started
    bool starting = false;  // the agent has yet to answer SpawnWorkers for it
    bool speaks = false;    // the control socket, and not of its progress alone
    std::optional<std::int64_t> step;
    std::int64_t checkpoint_failures = 0;  // the highest number that it told
    std::string error_kind;
    std::string error_text;
    std::optional<WorkerEnded> ended;  // and its error file has yet to be read
  };
  struct Folders {
    bool ready = false;  // or `error` says why not
    LocalRank local_rank;
    std::string error;
  };
  // What this node does in one generation. Replaced whole by the next assignment.
  struct Work {
    Generation generation{-1};  // before the first assignment
    Assignment assignment;
    Folders folders;
    std::vector<Worker> workers;             // by local rank
    bool tells = false;                      // one of them has told how far it is
    std::optional<std::int64_t> checkpoint;  // the newest that was reported
    std::int64_t last_ended_ms = 0;          // wall clock, when a worker ended last
    std::optional<Duration> start;           // StartMeasured
    // Those that hang and were told to end, and when they are killed.
    std::vector<LocalRank> hung;
    std::optional<TimePoint> kill_hung_at;
    // What was said, to be said again on the next session.
    bool acknowledged = false;
    std::vector<WorkerExited> exits;
    std::optional<Stopped> stopped;
  };
  // Processes that SIGKILL did not end: the rendezvous holds this node back until they are gone.
  struct Stuck {
    StuckProcesses told;
    TimePoint seen_at;  // they were as `told` has it
  };
  // With the rendezvous. Replaced whole when one is opened or lost.
  struct Session {
    bool open = false;
    bool joined = false;  // Join was sent on it
    bool heard = false;   // something came on it
    TimePoint joined_at;  // when its first Join was sent
    TimePoint next_heartbeat;
    std::int64_t told_failures = 0;  // of checkpoints
  };
  // Over all sessions.
  struct Contact {
    bool ever = false;  // something was heard
    bool said_waiting = false;
    TimePoint lost_since;  // the agent's start, or when the last session with a word ended
    std::string why_lost;
    // The newest time of which it is certain that the rendezvous, should it live, counts our lease
    // from then or later.
    TimePoint last{};
    std::optional<TimePoint> fence;  // as SetFence said last
  };

  // Where the lease is over by now, that comes first.
  void DispatchInTime(const Event& event, TimePoint now);
  void Dispatch(const Event& event, TimePoint now);
  // After the last decision: only what is held back for an answer is yet to be done.
  void DispatchAfterTheEnd(const Event& event, TimePoint now);
  void EndSession();
  void OnSessionOpened(TimePoint now);
  void OnSessionLost(const SessionLost& lost, TimePoint now);
  void OnReceived(const Received& received, TimePoint now);
  void OnWaiting(const Waiting& waiting);
  void OnHeartbeatAck(const HeartbeatAck& ack, TimePoint now);
  void OnAssignment(const Header& header, const Assignment& assignment, TimePoint now);
  bool MayBeAssigned() const;
  void Take(Generation generation, const Assignment& assignment);
  void OnStart(const Header& header, TimePoint now);
  void OnSave(const Header& header);
  void OnStop(const Header& header, const Stop& stop, TimePoint now);
  // Ends all workers. Those in `hung` get hang_signal and a short grace.
  void StopHung(const std::vector<LocalRank>& hung, TimePoint now);
  // They have had hang_grace. The others keep the rest of stop_grace, in which they may save.
  void KillHung(TimePoint now);
  std::vector<LocalRank> AliveOfHung() const;
  void OnLookAgain(const LookAgain& again);
  void OnTakeStacks(const Header& header, const TakeStacks& take);
  void OnWorkerStacksTaken(const WorkerStacksTaken& taken, TimePoint now);
  void OnFinished(const Finished& finished, TimePoint now);
  void OnFenced(const Header& header, const Fenced& fenced, TimePoint now);
  void OnRefused(const Refused& refused, TimePoint now);
  void OnFoldersReady(const FoldersReady& ready, TimePoint now);
  void StartWorkers(TimePoint now);
  void OnWorkerSpawned(const WorkerSpawned& spawned);
  void OnSpawnFailed(const SpawnFailed& failed, TimePoint now);
  void ReportSpawnFailure(const SpawnFailed& failed, TimePoint now);
  void OnCheckpointReported(const CheckpointReported& report);
  void OnCheckpointFailureReported(const CheckpointFailureReported& report);
  void OnCheckpointDamageReported(const CheckpointDamageReported& report);
  void OnWorkerEnded(const WorkerEnded& ended, TimePoint now);
  void OnErrorFileRead(const ErrorFileRead& read, TimePoint now);
  WorkerExited ReportOf(const WorkerEnded& ended, const std::string& error_file_text) const;
  void ReportExit(const WorkerEnded& ended, const std::string& error_file_text, TimePoint now);
  void OnSignal(const SignalReceived& signal, TimePoint now);
  void OnSuperseded(const Superseded& superseded, TimePoint now);
  void OnWorkersLost(const WorkersLost& lost);
  // Says so, and exits: what waited for the workers, or for what they left behind, is dropped.
  void LeaveWithoutWorkers(const WorkersLost& lost, std::vector<WorkerExited> reports = {});
  void LeaveJob(int signo, TimePoint now);
  // Its workers save when they are asked, and the rendezvous can have them asked.
  bool CanBePreempted() const;
  void SendHeartbeat(TimePoint now);
  // Before what may be the last word: whoever hears that has heard of all failures.
  void EmitFailures(TimePoint now);
  bool HasUntoldFailures() const { return failed_.count > session_.told_failures; }
  // Where there is no lease only news are worth one: failures, and how far the workers are.
  bool SendsHeartbeats() const {
    const bool progress = work_.tells && state_ == SupervisorState::kRunning;
    return session_.joined && (options_.leases || progress || HasUntoldFailures());
  }
  // The last actions wait for an answer: until they are done, the rendezvous counts on this node.
  bool HeartbeatsGoOn() const { return !outbox_.empty() && SendsHeartbeats(); }
  void OnTick(TimePoint now);

  // ---- the lease ----
  // Something of this node may run, or is about to, that only a lease allows.
  bool NeedsLease() const;
  std::optional<TimePoint> FenceAt() const;  // nullopt: not NeedsLease()
  std::optional<TimePoint> GiveUpAt() const;
  // When to say that nothing was heard of the rendezvous yet.
  std::optional<TimePoint> SayWaitingAt() const;
  void SayWaiting();
  void HadContact(TimePoint at, TimePoint now);
  void Fence(const std::string& why, TimePoint now);
  void GiveUp(TimePoint now);
  void UpdateFence();

  // Join, and all that was said in this generation.
  void Introduce(TimePoint now);
  // To Joining. An agent that was fenced is no member any more: it has to join again, also on the
  // session that it has.
  void GiveBackRanks(std::int64_t fenced_at_ms, bool rejoin, TimePoint now);

  // Ends what runs with `signo`, then goes to Joining, or with a verdict to the end.
  void StopWorkers(SupervisorState next, int signo, TimePoint now);
  void SettleIfGone(TimePoint now);
  // ---- stuck processes: supervisor_stuck.cc ----
  void OnNodeCleared(const NodeCleared& cleared, TimePoint now);
  void OnStuckProcessEnded(const StuckProcessEnded& ended, TimePoint now);
  void SetStuck(std::vector<StuckProcess> processes, TimePoint now);
  // Into Join, Stopped and Heartbeat.
  void AddStuck(std::vector<Action>* actions, TimePoint now) const;
  // Nothing more is expected of any of them.
  void AbandonWorkers();
  void End(SupervisorState next, Verdict verdict);
  void PushExit(Verdict verdict, std::optional<FolderClaim> claim = {});
  // That nobody has a use for any more, should this be the verdict.
  std::optional<FolderClaim> ClaimToRelease(const Verdict& verdict) const;
  void Enter(SupervisorState next);

  WorkerExited ExitReport(LocalRank local_rank, ExitStatus status) const;
  Worker* Find(LocalRank local_rank);
  std::vector<LocalRank> Alive() const;  // or being started
  // Start was said, and the workers cannot start yet.
  bool AwaitsFolders() const { return state_ == SupervisorState::kRunning && !work_.folders.ready; }
  bool AwaitsErrorFile() const;
  // Alive, or started as soon as their folders are made: they hold this node's ranks.
  bool HasWorkers() const { return AwaitsFolders() || !Alive().empty(); }
  void SendUp(AgentMessage message);
  void SendReport(AgentMessage message, bool workers_running);
  void Log(std::string text);

  const SupervisorOptions options_;

  SupervisorState state_ = SupervisorState::kJoining;
  Work work_;
  Session session_;
  Contact contact_;
  // An assignment that came when the lease was over, until an answer says that it holds.
  struct Unconfirmed {
    Generation generation;
    Assignment assignment;
  };
  std::optional<Unconfirmed> unconfirmed_;
  std::optional<Verdict> verdict_;  // what to end with when the workers are gone
  bool job_is_over_ = false;        // for all nodes, as the rendezvous said
  TimePoint signalled_at_;          // when Leaving began
  int stop_signal_ = 0;             // what the workers were sent last
  // Got SIGTERM, and told the rendezvous: until then it may save and let this node go.
  std::optional<TimePoint> preempted_until_;
  std::optional<TimePoint> deadline_;  // of Stopping, Leaving and Fenced

  // Since the agent's start.
  bool checkpoints_ = false;  // some worker told of a state
  bool durable_ = false;      // there is a state to begin with, on some disk
  FailedCheckpoints failed_;
  Stuck stuck_;
  Outbox outbox_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_H_
