// Supervisor: decides what happens to the workers of one node.
//
// A pure state machine. It does no I/O, reads no clock and owns no thread: an event and the time go
// in, actions come out. Its owner (launcher/agent) carries them out on the agent's loop, in the
// order in which they come, and feeds back what came of them.
//
//     Joining ──▶ Spawning ──▶ Running ──▶ Stopping ──▶ Joining (the next generation)
//        │            │           │            ├──────▶ Done     (the rendezvous said: finished)
//        └────────────┴───────────┴─▶ Leaving  ├──────▶ Failed   (no rendezvous, or refused)
//                                        └─────┴──────▶ Failed   (128 + signal)
//     Spawning, Running, Stopping ──▶ Fenced ──▶ Joining         (the lease is over)
//     Running ──▶ Spawning   (no worker was left, and the rendezvous went on without hearing of it)
//
// docs/internals/architecture.md has the diagram with every event, docs/internals/leases.md the
// rule of the lease.
//
// A session may break and be replaced at any time; workers run on meanwhile. On each session the
// Supervisor sends Join first and then repeats what it had said in its generation; what it sends
// while there is no session is lost, and that is all right.
//
// Where the rendezvous is one of several it obeys the highest term that it has heard of, and takes
// nothing else for a word of its rendezvous.
#ifndef DDPRUN_LAUNCHER_CORE_SUPERVISOR_H_
#define DDPRUN_LAUNCHER_CORE_SUPERVISOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/supervisor/actions.h"
#include "launcher/core/supervisor/contact.h"
#include "launcher/core/supervisor/events.h"
#include "launcher/core/supervisor/node_work.h"
#include "launcher/core/supervisor/outbox.h"
#include "launcher/core/supervisor/state.h"
#include "launcher/core/supervisor/stuck_list.h"
#include "launcher/core/supervisor_options.h"
#include "rendezvous/core/messages.h"
#include "rendezvous/core/types.h"

namespace ddprun {

class Supervisor : public SupervisorEvents, public SupervisorActions {
 public:
  explicit Supervisor(SupervisorOptions options);

  // Handles one event. What does not fit the state is ignored, for the reason given in the code.
  // Where the lease is over by `now`, the workers are killed before anything else is considered.
  void Step(const Event& event, TimePoint now);

  // What is to be done next; nullopt: nothing. Its owner does it, and asks again until there is
  // nothing. What it has not asked for yet, an event may still drop.
  std::optional<Action> NextAction(TimePoint now);

  // When to call Step(Tick) next, or nullopt while nothing is timed.
  std::optional<TimePoint> NextDeadline() const;

  SupervisorState state() const { return state_; }
  bool ended() const {
    return state_ == SupervisorState::kDone || state_ == SupervisorState::kFailed;
  }
  // Of what this node says now.
  Header header() const;
  // Of this node, since the agent's start.
  bool has_joined() const { return contact_.ever(); }
  FailedCheckpoints failed_checkpoints() const;

 private:
  // Where the lease is over by now, that comes first.
  void DispatchInTime(const Event& event, TimePoint now);
  void Dispatch(const Event& event, TimePoint now);
  // After the last decision: only what is held back for an answer is yet to be done.
  void DispatchAfterTheEnd(const Event& event, TimePoint now);
  void EndSession();
  void OnSessionOpened(TimePoint now);
  void OnSessionLost(const SessionLost& lost, TimePoint now);
  void OnReceived(const Received& received, TimePoint now);
  // ---- terms: supervisor_terms.cc ----
  // False: a message under this term is nothing that the rendezvous of this job says.
  bool Obeys(const Term& term, TimePoint now);
  void OnOtherCluster(const Term& term, TimePoint now);
  // ---- what the rendezvous says ----
  void OnWaiting(const Waiting& waiting);
  void OnHeartbeatAck(const HeartbeatAck& ack, TimePoint now);
  void OnAssignment(const Header& header, const Assignment& assignment, TimePoint now);
  bool MayBeAssigned() const;
  void Take(Generation generation, const Assignment& assignment);
  // Everything but the spawn is done.
  void Acknowledge();
  void OnStart(const Header& header, TimePoint now);
  void OnSave(const Header& header);
  void OnStop(const Header& header, const Stop& stop, TimePoint now);
  // Asks workers that can stay in their process to leave the generation, and ends the others.
  // Those in `hung` get hang_signal and a short grace.
  void EndGeneration(const std::vector<LocalRank>& hung, TimePoint now);
  // They have had in_place_timeout.
  void EndThoseThatStay();
  // They have had hang_grace. The others keep the rest of stop_grace, in which they may save.
  void KillHung(TimePoint now);
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
  void ReportSpawnFailure(const SpawnFailed& failed, const char* kind, TimePoint now);
  void OnWorkerSpoke(const WorkerSpoke& spoke);
  void OnWorkerStays(const WorkerStays& stays);
  void OnWorkerLeft(const WorkerLeft& left, TimePoint now);
  // ---- torch's store ----
  void OnStoreOpened(const StoreOpened& opened);
  void OnStoreFailed(const StoreFailed& failed);
  void OnStoreSoughtElsewhere(const StoreSoughtElsewhere& sought);
  void EndStore();
  void OnCheckpointReported(const CheckpointReported& report);
  void OnCheckpointFailureReported(const CheckpointFailureReported& report);
  void OnCheckpointDamageReported(const CheckpointDamageReported& report);
  void OnWorkerEnded(const WorkerEnded& ended, TimePoint now);
  void OnErrorFileRead(const ErrorFileRead& read, TimePoint now);
  void ReportExit(const WorkerEnded& ended, const std::string& error_file_text, TimePoint now);
  void OnSignal(const SignalReceived& signal, TimePoint now);
  void OnSuperseded(const Superseded& superseded, TimePoint now);
  void OnWorkersLost(const WorkersLost& lost);
  // Says so, and exits: what waited for the workers, or for what they left behind, is dropped.
  void LeaveWithoutWorkers(const WorkersLost& lost, std::vector<WorkerExited> reports = {});
  void LeaveJob(int signo, TimePoint now);
  // Its workers save when they are asked, and the rendezvous can have them asked.
  bool CanBePreempted() const;
  void PushHeartbeat(TimePoint now);
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
  // ---- stuck processes ----
  void OnNodeCleared(const NodeCleared& cleared, TimePoint now);
  void OnStuckProcessEnded(const StuckProcessEnded& ended, TimePoint now);
  void SetStuck(std::vector<StuckProcess> processes, TimePoint now);
  void End(SupervisorState next, Verdict verdict);
  void PushExit(Verdict verdict, std::optional<FolderClaim> claim = {});
  // That nobody has a use for any more, should this be the verdict.
  std::optional<FolderClaim> ClaimToRelease(const Verdict& verdict) const;
  void Enter(SupervisorState next);

  // Start was said, and the workers cannot start yet.
  bool AwaitsFolders() const { return state_ == SupervisorState::kRunning && !work_.folders.ready; }
  // Alive, or started as soon as their folders are made: they hold this node's ranks.
  bool HasWorkers() const { return AwaitsFolders() || !work_.Alive().empty(); }
  void SendUp(AgentMessage message);
  void SendReport(AgentMessage message, bool workers_running);
  void Log(std::string text);

  const SupervisorOptions options_;

  // An assignment that came when the lease was over, until an answer says that it holds.
  struct Unconfirmed {
    Generation generation;
    Assignment assignment;
  };
  // Of this node's workers.
  struct Ending {
    int signo = 0;                      // what they were sent last
    std::optional<TimePoint> deadline;  // of Stopping, Leaving and Fenced
    TimePoint signalled_at;             // when Leaving began
  };

  SupervisorState state_ = SupervisorState::kJoining;
  NodeWork work_;
  Session session_;
  Contact contact_;
  std::optional<TimePoint> fence_;  // as SetFence said last
  std::optional<Unconfirmed> unconfirmed_;
  std::optional<Verdict> verdict_;  // what to end with when the workers are gone
  bool job_is_over_ = false;        // for all nodes, as the rendezvous said
  Ending ending_;
  // Got SIGTERM, and told the rendezvous: until then it may save and let this node go.
  std::optional<TimePoint> preempted_until_;

  // Since the agent's start.
  bool checkpoints_ = false;  // some worker told of a state
  bool durable_ = false;      // there is a state to begin with, on some disk
  FailedCheckpoints failed_;
  StuckList stuck_;
  SupervisorOutbox outbox_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_H_
