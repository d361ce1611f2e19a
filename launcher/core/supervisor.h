// Supervisor: decides what happens to the workers of one node.
//
// A pure state machine. It does no I/O, reads no clock and owns no thread: an event and the time go
// in, actions come out. Its owner (launcher/agent) performs the actions in their order on the
// agent's loop, and passes the results back as events.
//
//     from         to          when
//     Joining      Spawning    Assignment
//     Spawning     Spawning    a newer Assignment
//                  Running     Start
//                  Joining     Stop, or the lease is over: no worker was started
//     Running      Stopping    a worker failed (no victim of another) or did not start, or Stop
//                  Fenced      the lease is over
//                  Spawning    an Assignment with no Stop before it (all workers have ended, and
//                              the rendezvous did not wait for this node's reports)
//     Stopping     Joining     no worker is left: the next generation
//                  Fenced      the lease is over
//     Fenced       Joining     no worker is left
//
// The message Fenced, and an answer from another etcd cluster, have the effect of "the lease is
// over" in these rows.
//
// A verdict is the final result for this node: its outcome, exit code and reason. It comes from
// Finished, from Refused, from a rendezvous that cannot be reached, or from credentials that do not
// match. Or the Supervisor makes it when it enters Leaving.
//
//     Joining, Spawning, Running ──▶ Stopping        there is a verdict
//     Stopping, Fenced ──▶ Done or Failed            no worker is left, and there is a verdict
//     any state above ──▶ Leaving ──▶ Failed         a signal ends this node's part of the job, the
//     (not Done, Failed)                             job runs elsewhere, or the guardian is lost
//
// MayFollow (supervisor/state.cc) has the same edges. Done: the rendezvous sent Finished, with an
// outcome other than kUnreachable (too few nodes). Failed: every other verdict. After a signal the
// exit code is 128 + signal; after SIGTERM it is 75 if there is a durable state. If the job saves
// first, the rendezvous decides: 75 or 143.
// docs/internals/leases.md has the rule of the lease.
//
// A session is one stream of messages between the agent and the rendezvous. It may break and be
// replaced at any time; the workers go on meanwhile. On each session the Supervisor first sends
// Join, and then repeats the messages of its generation. Two exceptions: while Fenced, Join waits
// until the workers are gone; with a verdict, no Join is sent, except in Leaving. A session that
// breaks may lose CheckpointDamaged, Checkpointed, CannotSave, RestartTimed, StacksTaken and Leave.
// If the rendezvous waits for a checkpoint or for stacks, it asks again on the next session. If it
// misses Leave, it waits until the lease is over.
//
// A term names one takeover by one of several rendezvous; a later takeover has a higher term. With
// several rendezvous, the Supervisor obeys the highest term that it has seen, and ignores messages
// with any other term. supervisor_terms.cc has the case of terms that cannot be compared.
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

  // Handles one event. An event that is not valid in the present state is ignored; the code has the
  // reason. Exception: WorkerSpawned or SpawnFailed for a worker that does not exist ends the
  // agent. If the fence time (FenceAt) has come by `now`, the workers are killed first.
  void Step(const Event& event, TimePoint now);

  // The next action; nullopt: none. The owner performs it, and asks again until there is none. An
  // event may drop actions that were not taken yet.
  std::optional<Action> NextAction(TimePoint now);

  // When to call Step(Tick) next, or nullopt while nothing is timed.
  std::optional<TimePoint> NextDeadline() const;

  SupervisorState state() const { return state_; }
  bool ended() const {
    return state_ == SupervisorState::kDone || state_ == SupervisorState::kFailed;
  }
  // The header of the messages that this node sends now.
  Header header() const;
  // True once this agent has accepted any message of a rendezvous, even a refusal.
  bool has_joined() const { return contact_.ever(); }
  // Of this node, since the agent's start.
  FailedCheckpoints failed_checkpoints() const;

 private:
  // Calls Dispatch(). Kills the workers first if the fence time has come.
  void DispatchInTime(const Event& event, TimePoint now);
  void Dispatch(const Event& event, TimePoint now);
  // Handles events after the last decision, when only held actions are left: they wait for the
  // answer to an earlier action (ClearNode, OfferPort).
  void DispatchAfterTheEnd(const Event& event, TimePoint now);
  void EndSession();
  void OnSessionOpened(TimePoint now);
  void OnSessionLost(const SessionLost& lost, TimePoint now);
  void OnReceived(const Received& received, TimePoint now);
  // ---- terms: supervisor_terms.cc ----
  // False: ignore messages with this term.
  bool Obeys(const Term& term, TimePoint now);
  void OnOtherCluster(const Term& term, TimePoint now);
  // ---- what the rendezvous says ----
  void OnWaiting(const Waiting& waiting);
  void OnStandbysStarted();
  void OnHeartbeatAck(const HeartbeatAck& ack, TimePoint now);
  void OnAssignment(const Header& header, const Assignment& assignment, TimePoint now);
  bool MayBeAssigned() const;
  void Take(Generation generation, const Assignment& assignment);
  // Sends AssignmentAck. Call it at once if the node serves no store, else once the store is open
  // or has failed. The workers' folders in the run folder (logs, error files) need not be ready.
  void Acknowledge();
  void OnStart(const Header& header, TimePoint now);
  void OnSave(const Header& header);
  void OnStop(const Header& header, const Stop& stop, TimePoint now);
  // Ends the workers' part in the generation. Workers that can leave a generation and join the next
  // one ("that stay") are asked to leave. Workers in `hung` get hang_signal, and SIGKILL after
  // hang_grace or stop_grace, whichever is shorter. The other workers get SIGTERM.
  void EndGeneration(const std::vector<LocalRank>& hung, TimePoint now);
  // in_place_timeout is over: sends SIGTERM to the workers that were asked to leave and have not
  // left.
  void EndThoseThatStay();
  // The time of the hung workers is over (see EndGeneration()): sends them SIGKILL. The other
  // workers have the rest of stop_grace to save their states.
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
  void OnErrorReported(const ErrorReported& report);
  void OnCheckpointReported(const CheckpointReported& report);
  void OnCheckpointFailureReported(const CheckpointFailureReported& report);
  void OnCheckpointDamageReported(const CheckpointDamageReported& report);
  void OnWorkerEnded(const WorkerEnded& ended, TimePoint now);
  void OnErrorFileRead(const ErrorFileRead& read, TimePoint now);
  void ReportExit(const WorkerEnded& ended, const std::string& error_file_text, TimePoint now);
  void OnSignal(const SignalReceived& signal, TimePoint now);
  void OnSuperseded(const Superseded& superseded, TimePoint now);
  void OnWorkersLost(const WorkersLost& lost);
  // Drops all pending actions except GenerationEnded. Sends `reports` and Leave, and exits.
  void LeaveWithoutWorkers(const WorkersLost& lost, std::vector<WorkerExited> reports = {});
  void LeaveJob(int signo, TimePoint now);
  // True if a worker of this agent has ever used checkpoints, and this agent has joined, so that
  // the rendezvous can order a save.
  bool CanBePreempted() const;
  void PushHeartbeat(TimePoint now);
  // Reports all failed checkpoints that were not reported yet. Call it before a message that may be
  // the last.
  void EmitFailures(TimePoint now);
  bool HasUntoldFailures() const { return failed_.count > session_.told_failures; }
  // True while heartbeats are sent. Without leases they are sent only to report failed checkpoints,
  // or the progress of running workers that report it. A later change of the processes that
  // cannot be killed also sends one heartbeat.
  bool SendsHeartbeats() const {
    const bool progress = work_.tells && state_ == SupervisorState::kRunning;
    return session_.joined && (options_.leases || progress || HasUntoldFailures());
  }
  // After the end: true while held actions are left. Heartbeats continue, because this
  // node still has its ranks.
  bool HeartbeatsGoOn() const { return !outbox_.empty() && SendsHeartbeats(); }
  void OnTick(TimePoint now);

  // ---- the lease ----

  // True if a worker runs or may start at any moment, so the lease must be observed. False without
  // leases, in Fenced (the workers are being killed), in Stopping with a verdict, and in Leaving
  // after SIGKILL.
  bool NeedsLease() const;
  std::optional<TimePoint> FenceAt() const;  // nullopt: not NeedsLease()
  std::optional<TimePoint> GiveUpAt() const;
  void Fence(const std::string& why, TimePoint now);
  void GiveUp(TimePoint now);
  void UpdateFence();

  // Sends Join, and repeats the messages of this generation.
  void Introduce(TimePoint now);
  // Enters Joining, and reports Stopped. `rejoin`: also sends Join on the present session, because
  // a fenced agent is no longer a member.
  void GiveBackRanks(std::int64_t fenced_at_ms, bool rejoin, TimePoint now);

  // Sends `signo` to all workers. When they are gone, the state becomes Joining, or with a verdict
  // Done or Failed.
  void StopWorkers(SupervisorState next, int signo, TimePoint now);
  void SettleIfGone(TimePoint now);
  // ---- stuck processes: SIGKILL has not ended them ----
  void OnNodeCleared(const NodeCleared& cleared, TimePoint now);
  void OnStuckProcessEnded(const StuckProcessEnded& ended, TimePoint now);
  void SetStuck(std::vector<StuckProcess> processes, TimePoint now);
  void End(SupervisorState next, Verdict verdict);
  void PushExit(Verdict verdict, std::optional<FolderClaim> claim = {});
  // The claim on the checkpoint folder that is to be released after this verdict; nullopt: none.
  std::optional<FolderClaim> ClaimToRelease(const Verdict& verdict) const;
  void Enter(SupervisorState next);

  // Start was received, and the workers wait for their folders.
  bool AwaitsFolders() const { return state_ == SupervisorState::kRunning && !work_.folders.ready; }
  // True if workers run, or will start as soon as their folders are ready. They hold this node's
  // ranks.
  bool HasWorkers() const { return AwaitsFolders() || !work_.Alive().empty(); }
  void SendUp(AgentMessage message);
  void SendReport(AgentMessage message, bool workers_running);
  void Log(std::string text);

  const SupervisorOptions options_;

  // An assignment that came when the lease was over. It waits for the answer to a heartbeat.
  struct Unconfirmed {
    Generation generation;
    Assignment assignment;
  };
  // The end of this node's workers.
  struct Ending {
    int signo = 0;                      // the last signal to them
    std::optional<TimePoint> deadline;  // of Stopping, Leaving and Fenced
    TimePoint signalled_at;             // when Leaving began
  };

  SupervisorState state_ = SupervisorState::kJoining;
  NodeWork work_;
  Session session_;
  Contact contact_;
  std::optional<TimePoint> fence_;  // of the last SetFence
  std::optional<Unconfirmed> unconfirmed_;
  std::optional<Verdict> verdict_;  // how this agent ends when the workers are gone
  bool job_is_over_ = false;        // for all nodes, by a Finished
  Ending ending_;
  // Set after SIGTERM, when Preempted was sent. Until this time the agent waits for the rendezvous
  // to order a save and to release this node.
  std::optional<TimePoint> preempted_until_;

  // Since the agent's start.
  bool checkpoints_ = false;  // a worker reported a state, or the phase restore
  bool durable_ = false;      // a durable state exists, on this node or another
  FailedCheckpoints failed_;
  StuckList stuck_;
  SupervisorOutbox outbox_;
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CORE_SUPERVISOR_H_
