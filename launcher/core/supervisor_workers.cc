// Supervisor: events of the workers, and its transitions. Messages of the rendezvous are in
// supervisor.cc.
#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "launcher/core/supervisor.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/words.h"
#include "worker/contract/control.h"

namespace ddprun {

// ---- workers ----

void Supervisor::OnFoldersReady(const FoldersReady& ready, TimePoint now) {
  // Ignore a generation that is over or already ending.
  const bool wanted = state_ == SupervisorState::kSpawning || AwaitsFolders();
  if (ready.generation != work_.generation || !wanted) return;
  const bool started = AwaitsFolders();
  work_.folders = {true, ready.local_rank, ready.error};
  if (started) StartWorkers(now);
}

void Supervisor::StartWorkers(TimePoint now) {
  if (!work_.folders.error.empty()) {
    ReportSpawnFailure({work_.folders.local_rank, kExitCannotExecute, work_.folders.error},
                       kErrorSpawn, now);
    return;
  }
  if (work_.store == NodeWork::Store::kFailed) {
    ReportSpawnFailure({LocalRank{0}, kExitCannotExecute, work_.why_no_store}, control::kErrorBind,
                       now);
    return;
  }
  for (NodeWork::Worker& worker : work_.workers) worker.alive = worker.starting = true;
  work_.tells = options_.tells_steps;
  UpdateFence();  // set the fence before workers exist
  outbox_.WorkersStart();
  outbox_.Push(SpawnWorkers{work_.generation, work_.assignment});
}

// If the generation's end was decided meanwhile, this worker has got the same signal as the others.
void Supervisor::OnWorkerSpawned(const WorkerSpawned& spawned) {
  NodeWork::Worker* worker = work_.Find(spawned.local_rank);
  DDPRUN_CHECK(worker != nullptr, "spawned unasked");
  worker->pid = spawned.pid;
  worker->starting = false;
  if (state_ == SupervisorState::kRunning && !work_.AnyStarts()) outbox_.Push(AllWorkersRun{});
}

void Supervisor::OnSpawnFailed(const SpawnFailed& failed, TimePoint now) {
  NodeWork::Worker* worker = work_.Find(failed.local_rank);
  DDPRUN_CHECK(worker != nullptr, "not asked to spawn");
  if (!worker->alive) return;  // it was given up: it did not end in time after SIGKILL
  worker->alive = worker->starting = false;
  if (state_ == SupervisorState::kRunning) {
    ReportSpawnFailure(failed, failed.permanent ? kErrorExec : kErrorSpawn, now);
  } else {
    SettleIfGone(now);
  }
}

void Supervisor::ReportSpawnFailure(const SpawnFailed& failed, const char* kind, TimePoint now) {
  WorkerExited report = work_.ReportOf(failed.local_rank, ExitStatus{failed.exit_code});
  report.error_kind = kind;
  report.error_text = failed.reason;
  work_.exits.push_back(report);
  SendUp(std::move(report));
  EndGeneration({}, now);
}

void Supervisor::OnWorkerSpoke(const WorkerSpoke& spoke) {
  NodeWork::Worker* worker = work_.Find(spoke.local_rank);
  if (worker == nullptr) return;
  work_.tells = true;
  worker->speaks = worker->speaks || spoke.listens;
  checkpoints_ = checkpoints_ || spoke.checkpoints;
}

void Supervisor::OnWorkerStays(const WorkerStays& stays) {
  NodeWork::Worker* worker = work_.Find(stays.local_rank);
  if (worker != nullptr) worker->stays = options_.in_place_timeout > Duration(0);
}

// Ignores a worker that was not asked to leave.
void Supervisor::OnWorkerLeft(const WorkerLeft& left, TimePoint now) {
  NodeWork::Worker* worker = work_.Find(left.local_rank);
  if (worker == nullptr || !worker->alive || !worker->stays) return;
  if (state_ == SupervisorState::kRunning) return;
  worker->alive = false;
  SettleIfGone(now);
}

// No worker of any node may start before the store is open: none could connect.
void Supervisor::OnStoreOpened(const StoreOpened& opened) {
  if (opened.generation != work_.generation || work_.store != NodeWork::Store::kOpening) return;
  work_.store = NodeWork::Store::kOpen;
  Acknowledge();
}

// The failure is reported when the workers would start. Without the agent's store, rank 0 would
// report a taken port at that time, too.
void Supervisor::OnStoreFailed(const StoreFailed& failed) {
  if (failed.generation != work_.generation || work_.store != NodeWork::Store::kOpening) return;
  work_.store = NodeWork::Store::kFailed;
  work_.why_no_store = failed.reason;
  Acknowledge();
}

void Supervisor::OnStoreSoughtElsewhere(const StoreSoughtElsewhere& sought) {
  if (!work_.assignment.agent_store || !work_.store_elsewhere.empty()) return;
  if (state_ != SupervisorState::kRunning) return;  // the generation ends anyway
  work_.store_elsewhere = sought.where;
  SendUp(StoreElsewhere{sought.where});
}

// No worker of this node is left, or none was started.
void Supervisor::EndStore() {
  if (work_.store == NodeWork::Store::kNone) return;
  work_.store = NodeWork::Store::kNone;
  outbox_.Push(CloseStore{});
}

void Supervisor::OnErrorReported(const ErrorReported& report) {
  NodeWork::Worker* worker = work_.Find(report.local_rank);
  if (worker == nullptr) return;
  worker->speaks = true;
  worker->error_kind = report.kind;
  worker->error_text = report.text;
}

void Supervisor::OnCheckpointReported(const CheckpointReported& report) {
  NodeWork::Worker* worker = work_.Find(report.local_rank);
  if (worker == nullptr) return;
  worker->speaks = worker->saves = checkpoints_ = durable_ = true;
  if (work_.checkpoint == report.step) return;  // another rank of this node has reported it
  work_.checkpoint = report.step;
  SendUp(Checkpointed{report.step});
}

void Supervisor::OnCheckpointFailureReported(const CheckpointFailureReported& report) {
  NodeWork::Worker* worker = work_.Find(report.local_rank);
  if (worker == nullptr) return;
  worker->speaks = true;
  // A gap between the numbers means lost messages. A number that is not higher comes from another
  // Checkpointer.
  const std::int64_t added =
      std::max<std::int64_t>(report.failures - worker->checkpoint_failures, 1);
  worker->checkpoint_failures = std::max(worker->checkpoint_failures, report.failures);
  failed_.count = std::min(failed_.count + added, kMaxCheckpointFailures);
  failed_.last_step = report.step;
  failed_.last_reason = report.reason;
}

void Supervisor::OnCheckpointDamageReported(const CheckpointDamageReported& report) {
  NodeWork::Worker* worker = work_.Find(report.local_rank);
  if (worker == nullptr) return;
  worker->speaks = true;
  SendUp(CheckpointDamaged{report.step, report.text});
}

void Supervisor::OnWorkerEnded(const WorkerEnded& ended, TimePoint now) {
  NodeWork::Worker* worker = work_.Find(ended.local_rank);
  // The worker was given up: it did not end in time after SIGKILL, or the agent itself was stopped,
  // so that its timer ran before this event.
  if (worker == nullptr || !worker->alive) return;
  worker->alive = false;
  work_.last_ended_ms = ended.ended_at_ms;
  if (state_ != SupervisorState::kRunning) {  // ended by us, or a victim of the end in progress
    SettleIfGone(now);
    return;
  }
  // Reports keep the order of the ends, because the first is the cause.
  if (!ended.status.ok()) {
    worker->ended = ended;
    outbox_.Push(ReadErrorFile{work_.generation, ended.local_rank});
    return;
  }
  ReportExit(ended, "", now);
}

void Supervisor::OnErrorFileRead(const ErrorFileRead& read, TimePoint now) {
  NodeWork::Worker* worker = work_.Find(read.local_rank);
  if (read.generation != work_.generation || worker == nullptr || !worker->ended) return;
  const WorkerEnded ended = *std::exchange(worker->ended, std::nullopt);
  ReportExit(ended, read.text, now);
}

void Supervisor::ReportExit(const WorkerEnded& ended, const std::string& error_file_text,
                            TimePoint now) {
  WorkerExited report = work_.ReportOf(ended, error_file_text);
  if (!ended.status.ok()) {
    Log(Describe(
        WorkerFailure{options_.node.host, work_.assignment.node_rank, work_.generation, report}));
  }
  work_.exits.push_back(report);
  EmitFailures(now);
  SendUp(report);
  if (state_ != SupervisorState::kRunning) {  // the generation began to end meanwhile
    SettleIfGone(now);
    return;
  }
  // Exit code 0: wait for the other workers without a limit. A victim: the cause may be a worker of
  // this node that has not reported yet; the rendezvous says when to stop waiting for it.
  if (ended.status.ok() || IsVictim(report)) return;
  EndGeneration({}, now);
}

// ---- the user and time ----

void Supervisor::OnSignal(const SignalReceived& signal, TimePoint now) {
  durable_ = durable_ || signal.durable;
  if (signal.signo == SIGUSR1 || signal.signo == SIGUSR2) {
    auto running = work_.WithProgram();  // before its exec a worker would be killed by the signal
    if (!running.empty()) outbox_.Push(SignalWorkers{signal.signo, running});
    return;
  }
  if (state_ == SupervisorState::kLeaving) {
    const bool from_a_keyboard = signal.signo == SIGINT || signal.signo == SIGQUIT;
    if (from_a_keyboard &&
        now >= ending_.signalled_at + options_.repeat_guard) {  // the second request ends the grace
      StopWorkers(SupervisorState::kLeaving, SIGKILL, now);
    }
    return;
  }
  if (signal.signo == SIGTERM && (preempted_until_ || CanBePreempted())) {
    if (preempted_until_)
      return;  // a duplicate: from the scheduler and its wrapper, or to the process and its group
    Log("got SIGTERM: asking for a checkpoint; then this node leaves");
    preempted_until_ = now + options_.spec.save_timeout + options_.stop_grace;
    SendUp(Preempted{absl::StrCat(options_.node.host, " got SIGTERM")});
    return;
  }
  LeaveJob(signal.signo, now);
}

bool Supervisor::CanBePreempted() const {
  return checkpoints_ && session_.joined && !verdict_ && state_ != SupervisorState::kFenced;
}

void Supervisor::LeaveJob(int signo, TimePoint now) {
  ending_.signalled_at = now;
  const std::string name = SignalName(signo);
  Log(absl::StrCat("got ", name, ": ending this node's workers"));
  const bool may_go_on =
      signo == SIGTERM && durable_;  // the job can resume from the last checkpoint
  verdict_ = Verdict::OfAgent(may_go_on ? Outcome::kPreempted : Outcome::kLeft,
                              may_go_on ? kExitPreempted : 128 + signo,
                              absl::StrCat("this agent got ", name));
  // Fenced: no grace for any signal.
  StopWorkers(SupervisorState::kLeaving, state_ == SupervisorState::kFenced ? SIGKILL : signo, now);
}

// If a rendezvous with our requeue number still exists, it does not wait for this node.
void Supervisor::OnSuperseded(const Superseded& superseded, TimePoint now) {
  if (verdict_) {  // this node's end is already decided; now without grace
    if (ending_.signo != SIGKILL) StopWorkers(state_, SIGKILL, now);
    return;
  }
  ending_.signalled_at = now;
  verdict_ = Verdict::OfAgent(Outcome::kRefused, kExitRefused, superseded.reason);
  StopWorkers(SupervisorState::kLeaving, SIGKILL, now);
}

// The workers are dead, so pending actions for them are dropped.
void Supervisor::OnWorkersLost(const WorkersLost& lost) {
  std::vector<WorkerExited> reports;  // of workers whose error files are being read
  for (const NodeWork::Worker& worker : work_.workers) {
    if (worker.ended) reports.push_back(work_.ReportOf(*worker.ended, ""));
  }
  work_.Abandon();
  if (state_ != SupervisorState::kLeaving) Enter(SupervisorState::kLeaving);
  Enter(SupervisorState::kFailed);
  LeaveWithoutWorkers(lost, std::move(reports));
}

void Supervisor::LeaveWithoutWorkers(const WorkersLost& lost, std::vector<WorkerExited> reports) {
  const std::optional<Verdict> held = outbox_.OnWorkersLost();
  for (WorkerExited& report : reports) SendUp(std::move(report));
  const std::optional<Verdict>& known = held ? held : verdict_;
  SendUp(Leave{lost.reason, kExitInternal});
  // A verdict of the rendezvous stays true.
  PushExit(known && !known->decided_by_agent
               ? *known
               : Verdict::OfAgent(Outcome::kLeft, kExitInternal, lost.reason));
}

void Supervisor::PushHeartbeat(TimePoint now) {
  Heartbeat heartbeat{std::chrono::nanoseconds(now.time_since_epoch()).count(), work_.NewestStep()};
  heartbeat.can_stand_by = work_.can_stand_by;
  if (HasUntoldFailures()) {
    heartbeat.failed_checkpoints = failed_;
    session_.told_failures = failed_.count;
  }
  const bool runs = state_ == SupervisorState::kRunning;
  if (session_.joined) {
    outbox_.Push(SendHeartbeat{header(), std::move(heartbeat), runs, contact_.round_trip()});
  }
  session_.next_heartbeat = now + options_.spec.heartbeat;
}

void Supervisor::EmitFailures(TimePoint now) {
  if (session_.joined && HasUntoldFailures()) PushHeartbeat(now);
}

void Supervisor::OnTick(TimePoint now) {
  if (SendsHeartbeats() && now >= session_.next_heartbeat) PushHeartbeat(now);
  if (const auto give_up = GiveUpAt(); give_up && now >= *give_up) {
    GiveUp(now);
    return;
  }
  if (GiveUpAt()) {
    const auto say = contact_.WaitingNoteAt();
    if (say && now >= *say) Log(contact_.TakeWaitingNote());
  }
  if (preempted_until_ && now >= *preempted_until_ && state_ != SupervisorState::kLeaving) {
    Log("no checkpoint came in time");
    LeaveJob(SIGTERM, now);
    return;
  }
  if (work_.kill_hung_at && now >= *work_.kill_hung_at) KillHung(now);
  if (work_.leave_until && now >= *work_.leave_until) EndThoseThatStay();
  if (!ending_.deadline || now < *ending_.deadline) return;
  if (ending_.signo != SIGKILL) {
    StopWorkers(state_, SIGKILL, now);
    return;
  }
  Log(absl::StrCat(work_.Describe(work_.Alive()),
                   " did not end after SIGKILL, and is not waited for"));
  work_.Abandon();
  SettleIfGone(now);
}

// ---- stuck processes ----

void Supervisor::OnNodeCleared(const NodeCleared& cleared, TimePoint now) {
  if (!outbox_.OnNodeCleared()) return;
  if (!cleared.stuck.empty()) {
    outbox_.PushFirst(Note{absl::StrCat(
        Describe(StuckProcesses{0, cleared.stuck}),
        ended() ? "; this agent ends without it" : "; until it is gone no worker starts here")});
  }
  SetStuck(cleared.stuck, now);
}

void Supervisor::OnStuckProcessEnded(const StuckProcessEnded& ended, TimePoint now) {
  auto others = stuck_.Without(ended.pid, now);
  if (!others) return;
  Log(absl::StrCat("process ", ended.pid, " is gone, which SIGKILL had not ended"));
  if (state_ == SupervisorState::kJoining) {
    outbox_.Clear(/*always=*/true);  // the worker may have left processes behind; the answer names
                                     // them
  } else {
    SetStuck(*std::move(others), now);
  }
}

void Supervisor::SetStuck(std::vector<StuckProcess> processes, TimePoint now) {
  const bool had_any = !stuck_.empty();
  stuck_.Set(std::move(processes), now);
  // The first stuck processes are reported by the Join or Stopped that waits for NodeCleared.
  if (had_any && session_.joined && !ended()) PushHeartbeat(now);
}

// ---- transitions ----

void Supervisor::StopWorkers(SupervisorState next, int signo, TimePoint now) {
  if (state_ != next) Enter(next);
  ending_.signo = signo;
  work_.leave_until.reset();  // the signal goes to leaving workers, too
  ending_.deadline = now + (signo == SIGKILL ? options_.kill_grace : options_.stop_grace);
  if (const auto alive = work_.Alive(); !alive.empty()) {
    outbox_.Push(SignalWorkers{signo, alive});
  }
  SettleIfGone(now);
}

// Sends SIGCONT, because a stopped process does not handle signals.
void Supervisor::EndGeneration(const std::vector<LocalRank>& hung, TimePoint now) {
  Enter(SupervisorState::kStopping);
  ending_.signo = SIGTERM;
  ending_.deadline = now + options_.stop_grace;
  work_.hung = hung;
  if (const auto first = work_.AliveHung(); !first.empty()) {
    work_.kill_hung_at = now + std::min(options_.stop_grace, options_.hang_grace);
    outbox_.Push(SignalWorkers{options_.hang_signal, first});
    outbox_.Push(SignalWorkers{SIGCONT, first});
  }
  if (const auto others = work_.AliveOthers(/*that_stay=*/false); !others.empty()) {
    outbox_.Push(SignalWorkers{SIGTERM, others});
  }
  if (const auto others = work_.AliveOthers(/*that_stay=*/true); !others.empty()) {
    work_.leave_until = now + options_.in_place_timeout;
    outbox_.Push(AskWorkersToLeave{others});
  }
  SettleIfGone(now);
}

void Supervisor::EndThoseThatStay() {
  work_.leave_until.reset();
  const auto late = work_.AliveOthers(/*that_stay=*/true);
  if (late.empty()) return;
  Log(absl::StrCat(work_.Describe(late), " did not leave the generation within ",
                   TenthsOfSeconds(options_.in_place_timeout), ": it is ended and started again"));
  outbox_.Push(SignalWorkers{SIGTERM, late});
}

void Supervisor::KillHung(TimePoint now) {
  work_.kill_hung_at.reset();
  const auto hung = work_.AliveHung();
  if (hung.empty()) return;
  if (hung.size() == work_.Alive().size()) return StopWorkers(state_, SIGKILL, now);
  outbox_.Push(SignalWorkers{SIGKILL, hung});
}

void Supervisor::SettleIfGone(TimePoint now) {
  if (!work_.Alive().empty() || work_.AwaitsErrorFile()) return;
  ending_.deadline.reset();
  work_.kill_hung_at.reset();
  work_.leave_until.reset();
  if (state_ == SupervisorState::kLeaving || verdict_) {
    outbox_.Push(EndStandbys{});
    outbox_.Clear(/*always=*/true);
  }
  if (state_ == SupervisorState::kLeaving) {
    if (session_.open && !session_.joined) Introduce(now);
    EmitFailures(now);
    SendUp(Leave{verdict_->reason, verdict_->exit_code});
    End(SupervisorState::kFailed, *std::move(verdict_));
  } else if (verdict_) {
    const bool over =
        verdict_->outcome != Outcome::kUnreachable && verdict_->outcome != Outcome::kRefused;
    End(over ? SupervisorState::kDone : SupervisorState::kFailed, *std::move(verdict_));
  } else {
    const bool fenced = state_ == SupervisorState::kFenced;
    GiveBackRanks(fenced ? work_.last_ended_ms : 0, fenced, now);
  }
}

void Supervisor::GiveBackRanks(std::int64_t fenced_at_ms, bool rejoin, TimePoint now) {
  Enter(SupervisorState::kJoining);
  Stopped stopped;
  stopped.fenced_at_ms = fenced_at_ms;
  stopped.last_step = work_.NewestStep();
  stopped.failed_checkpoints = failed_;
  stopped.start = work_.start;
  work_.stopped = stopped;
  if (rejoin && session_.open) {
    Introduce(now);
  } else {
    SendReport(stopped, /*workers_running=*/false);
  }
  EndStore();
}

void Supervisor::End(SupervisorState next, Verdict verdict) {
  Enter(next);
  const std::optional<FolderClaim> claim = ClaimToRelease(verdict);
  PushExit(std::move(verdict), claim);
}

// After a signal to this agent, the other nodes go on if there are enough of them; then they need
// the folder.
std::optional<Supervisor::FolderClaim> Supervisor::ClaimToRelease(const Verdict& verdict) const {
  const Assignment& last = work_.assignment;
  if (work_.workers.empty() || last.first_rank != Rank{0}) return std::nullopt;
  const bool left = verdict.decided_by_agent &&
                    (verdict.outcome == Outcome::kLeft || verdict.outcome == Outcome::kPreempted);
  const bool over = job_is_over_ || (left && last.node_count <= options_.spec.min_nodes);
  if (!over) return std::nullopt;
  return FolderClaim{work_.generation, last.run_id};
}

void Supervisor::PushExit(Verdict verdict, std::optional<FolderClaim> claim) {
  UpdateFence();  // clears the fence
  if (verdict.failed_checkpoints.count < failed_.count) {
    verdict.failed_checkpoints = failed_checkpoints();
  }
  outbox_.Push(Exit{std::move(verdict), claim});
}

void Supervisor::Enter(SupervisorState next) {
  DDPRUN_CHECK(MayFollow(state_, next), ToString(next));
  if (state_ == SupervisorState::kRunning) outbox_.Push(GenerationEnded{});
  state_ = next;
}

}  // namespace ddprun
