#include "launcher/core/supervisor.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/lease.h"
#include "rendezvous/core/overloaded.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/words.h"

namespace ddprun {
namespace {

// For people: to a tenth of a second.
std::string Rounded(Duration duration) {
  using Tenths = std::chrono::duration<std::int64_t, std::deci>;
  return Seconds(std::chrono::round<Tenths>(duration));
}

}  // namespace

const char* ToString(SupervisorState state) {
  switch (state) {
    case SupervisorState::kJoining:
      return "Joining";
    case SupervisorState::kSpawning:
      return "Spawning";
    case SupervisorState::kRunning:
      return "Running";
    case SupervisorState::kStopping:
      return "Stopping";
    case SupervisorState::kLeaving:
      return "Leaving";
    case SupervisorState::kFenced:
      return "Fenced";
    case SupervisorState::kDone:
      return "Done";
    case SupervisorState::kFailed:
      return "Failed";
  }
  return "?";
}

Supervisor::Supervisor(SupervisorOptions options) : options_(std::move(options)) {}

std::vector<Supervisor::Action> Supervisor::Step(const Event& event, TimePoint now) {
  if (ended()) {
    DispatchAfterTheEnd(event);
    return outbox_.Release();
  }
  if (const auto fence = FenceAt(); fence && now >= *fence) {
    Fence(absl::StrCat(options_.rendezvous, " was not heard for ", Rounded(now - last_contact_)),
          now);
  }
  Dispatch(event, now);
  UpdateFence();
  return outbox_.Release();
}

void Supervisor::Dispatch(const Event& event, TimePoint now) {
  std::visit(
      Overloaded{
          [&](const AgentStarted&) {
            unreachable_since_ = now;
            outbox_.ScanAhead();  // while it connects
          },
          [&](const SessionOpened&) { OnSessionOpened(now); },
          [&](const Received& received) { OnReceived(received, now); },
          [&](const SessionLost& lost) { OnSessionLost(lost, now); },
          [&](const FoldersReady& ready) { OnFoldersReady(ready, now); },
          [&](const WorkerSpawned& spawned) { OnWorkerSpawned(spawned); },
          [&](const SpawnFailed& failed) { OnSpawnFailed(failed, now); },
          [&](const WorkerSpoke& spoke) {
            Worker* worker = Find(spoke.local_rank);
            if (worker == nullptr) return;
            worker->speaks = true;
            checkpoints_ = checkpoints_ || spoke.checkpoints;
          },
          [&](const CheckpointReported& report) { OnCheckpointReported(report); },
          [&](const CheckpointFailureReported& report) { OnCheckpointFailureReported(report); },
          [&](const StepReported& report) {
            Worker* worker = Find(report.local_rank);
            if (worker == nullptr) return;
            worker->speaks = true;
            worker->step = report.step;
          },
          [&](const ErrorReported& report) {
            Worker* worker = Find(report.local_rank);
            if (worker == nullptr) return;
            worker->speaks = true;
            worker->error_kind = report.kind;
            worker->error_text = report.text;
          },
          [&](const WorkerEnded& ended) { OnWorkerEnded(ended, now); },
          [&](const ErrorFileRead& read) { OnErrorFileRead(read, now); },
          [&](const SignalReceived& signal) { OnSignal(signal, now); },
          [&](const Superseded& superseded) { OnSuperseded(superseded, now); },
          [&](const NodeCleared&) { outbox_.OnNodeCleared(); },
          [&](const StatesFound&) { outbox_.OnStatesFound(); },
          [&](const PortOffered& offered) { outbox_.OnPortOffered(offered.port); },
          [&](const RestartMeasured& restart) {
            if (restart.times.generation == generation_) SendUp(RestartTimed{restart.times});
          },
          [&](const WorkersLost& lost) { OnWorkersLost(lost); },
          [&](const Tick&) { OnTick(now); },
      },
      event);
}

void Supervisor::DispatchAfterTheEnd(const Event& event) {
  std::visit(Overloaded{
                 [&](const NodeCleared&) { outbox_.OnNodeCleared(); },
                 [&](const StatesFound&) { outbox_.OnStatesFound(); },
                 [&](const PortOffered& offered) { outbox_.OnPortOffered(offered.port); },
                 [&](const SessionOpened&) { outbox_.DropMessages(); },
                 [&](const SessionLost&) { outbox_.DropMessages(); },
                 [&](const WorkersLost& lost) {
                   if (outbox_.empty()) return;  // the last action was done
                   outbox_.DropEverything();
                   PushExit(Verdict::Own("left", kExitInternal, lost.reason));
                 },
                 [](const auto&) {},
             },
             event);
}

Header Supervisor::header() const {
  return {options_.job, options_.epoch, generation_, options_.agent_id};
}

FailedCheckpoints Supervisor::failed_checkpoints() const {
  FailedCheckpoints failed = failed_;
  if (failed.count > 0) failed.last_host = options_.node.host;
  return failed;
}

std::optional<TimePoint> Supervisor::NextDeadline() const {
  if (ended()) return std::nullopt;
  std::optional<TimePoint> next = deadline_;
  const auto also = [&](std::optional<TimePoint> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  also(FenceAt());
  also(GiveUpAt());
  if (state_ != SupervisorState::kLeaving) also(preempted_until_);
  if (SendsHeartbeats()) also(next_heartbeat_);
  return next;
}

// ---- the session ----

void Supervisor::OnSessionOpened(TimePoint now) {
  outbox_.DropMessages();
  open_ = true;
  joined_ = heard_ = false;
  // Fenced: when the workers are gone. With a verdict of the rendezvous: there is nothing to say.
  if (state_ == SupervisorState::kFenced) return;
  if (verdict_ && state_ != SupervisorState::kLeaving) return;
  Introduce(now);
}

void Supervisor::Introduce(TimePoint now) {
  unconfirmed_.reset();  // where it holds, it is said again
  const bool again = std::exchange(joined_, true);
  if (!again) {
    joined_at_ = now;
    next_heartbeat_ = now + options_.spec.heartbeat;
  }
  Join join{options_.spec, options_.node, 0, HasWorkers(), heard_ever_};
  join.failed_checkpoints = failed_;
  join.unfit = options_.unfit;
  told_failures_ = failed_.count;
  const bool running = join.workers_running;
  SendReport(std::move(join), running);
  if (prepared_) SendUp(AssignmentAck{});
  for (const WorkerExited& exit : exits_) SendUp(exit);
  if (drained_) SendReport(*drained_, /*workers_running=*/false);
  if (preempted_until_) SendUp(Preempted{absl::StrCat(options_.node.host, " got SIGTERM")});
  // What answers a later Join may have crossed it: only an acknowledgement shows that it was read,
  // and it has to come before the next assignment, or the lease would be over again.
  if (again && options_.leases) SendHeartbeat(now);
}

void Supervisor::OnSessionLost(const SessionLost& lost, TimePoint now) {
  outbox_.DropMessages();
  const bool was_heard = open_ && heard_;
  open_ = joined_ = heard_ = false;
  if (lost.refused) HadContact(lost.attempt_started_at, now);
  why_unreachable_ = lost.reason;
  if (state_ == SupervisorState::kLeaving || verdict_) return;  // nothing more was to be heard
  if (lost.denied && !heard_ever_) {
    verdict_ = Verdict::Own("refused", kExitRefused, lost.reason);
    StopWorkers(SupervisorState::kStopping, SIGKILL, now);
  } else if (!options_.leases) {
    GiveUp(now);
  } else if (was_heard) {
    unreachable_since_ = now;
    Say(absl::StrCat(lost.reason, "; connecting again",
                     Alive().empty() ? "" : ", and the workers go on meanwhile"));
  }
}

std::optional<TimePoint> Supervisor::GiveUpAt() const {
  if (!options_.leases || open_ || verdict_) return std::nullopt;
  return unreachable_since_ + (heard_ever_ ? options_.daemon_grace : options_.connect_timeout);
}

void Supervisor::GiveUp(TimePoint now) {
  std::string reason = why_unreachable_.empty()
                           ? absl::StrCat(options_.rendezvous, " does not answer")
                           : why_unreachable_;
  if (options_.leases) {
    absl::StrAppend(&reason, "; gave up after ", Rounded(now - unreachable_since_));
  }
  verdict_ = Verdict::Own("unreachable", kExitUnavailable, std::move(reason));
  if (state_ == SupervisorState::kFenced) return;  // when the workers are gone
  // Without the rendezvous nobody can tell whether our ranks are still ours: no grace.
  StopWorkers(SupervisorState::kStopping, SIGKILL, now);
}

// ---- the lease ----

bool Supervisor::NeedsLease() const {
  if (!options_.leases) return false;
  switch (state_) {
    case SupervisorState::kSpawning:
      return true;  // a Start may be on its way
    case SupervisorState::kRunning:
      return HasWorkers();
    case SupervisorState::kStopping:
      return !verdict_;  // else the job is over, and so are its ranks
    case SupervisorState::kLeaving:
      return stop_signal_ != SIGKILL;
    default:
      return false;
  }
}

std::optional<TimePoint> Supervisor::FenceAt() const {
  if (!NeedsLease()) return std::nullopt;
  return FenceTime(last_contact_, options_.spec.lease);
}

void Supervisor::HadContact(TimePoint at, TimePoint now) {
  last_contact_ = std::max(last_contact_, std::min(at, now));
}

void Supervisor::Fence(const std::string& why, TimePoint now) {
  Say(absl::StrCat("fenced: ", why,
                   "; this node's ranks may be given to others by now, so none of its workers "
                   "lives on"));
  switch (state_) {
    case SupervisorState::kSpawning:
      Drain(0, true, now);
      break;
    case SupervisorState::kLeaving:
      StopWorkers(SupervisorState::kLeaving, SIGKILL, now);
      break;
    default:
      StopWorkers(SupervisorState::kFenced, SIGKILL, now);
  }
}

void Supervisor::UpdateFence() {
  std::optional<TimePoint> wanted;
  const bool over = ended() || (verdict_ && state_ == SupervisorState::kStopping);
  if (options_.leases && !over && !Alive().empty()) {
    wanted = FenceTime(last_contact_, options_.spec.lease) + BackstopDelay(options_.spec.lease);
  }
  if (wanted == fence_) return;
  fence_ = wanted;
  outbox_.Push(SetFence{wanted});
}

// ---- the rendezvous ----

void Supervisor::OnReceived(const Received& received, TimePoint now) {
  const Header& header = received.header;
  if (header.job != options_.job || header.epoch != options_.epoch ||
      header.agent_id != options_.agent_id) {
    return;  // meant for another agent, or for an earlier life of this one
  }
  if (!joined_) return;  // said on a session that is over
  // Whoever answers our Join has read it; and counts on us, unless it says that it does not.
  if (!std::holds_alternative<Refused>(received.message) &&
      !std::holds_alternative<Fenced>(received.message)) {
    HadContact(joined_at_, now);
  }
  heard_ = heard_ever_ = true;
  if (!why_unreachable_.empty()) Say(absl::StrCat("connected to ", options_.rendezvous));
  why_unreachable_.clear();
  std::visit(Overloaded{
                 [&](const Waiting& waiting) { OnWaiting(waiting); },
                 [&](const HeartbeatAck& ack) { OnHeartbeatAck(ack, now); },
                 [&](const Assignment& assignment) { OnAssignment(header, assignment, now); },
                 [&](const Start&) { OnStart(header, now); },
                 [&](const Save&) { OnSave(header); },
                 [&](const Stop& stop) { OnStop(header, stop, now); },
                 [&](const Finished& finished) { OnFinished(finished, now); },
                 [&](const Fenced& fenced) { OnFenced(header, fenced, now); },
                 [&](const Refused& refused) { OnRefused(refused, now); },
             },
             received.message);
}

void Supervisor::OnWaiting(const Waiting& waiting) {
  if (state_ == SupervisorState::kJoining) Say(waiting.reason);
}

void Supervisor::OnHeartbeatAck(const HeartbeatAck& ack, TimePoint now) {
  // Not from now on: the answer may have been on its way for longer than the lease.
  HadContact(TimePoint(std::chrono::nanoseconds(ack.sent_at)), now);
  if (!unconfirmed_ || !MayBeAssigned()) return;
  if (now >= FenceTime(last_contact_, options_.spec.lease)) return;  // to a heartbeat before it
  const Unconfirmed taken = *std::exchange(unconfirmed_, std::nullopt);
  Take(taken.generation, taken.assignment);
}

bool Supervisor::MayBeAssigned() const {
  switch (state_) {
    case SupervisorState::kJoining:
    case SupervisorState::kSpawning:  // another node went away, and this is the next forming
      return true;
    case SupervisorState::kRunning:  // without a worker: the rendezvous went on without hearing how
      return !HasWorkers() && !AwaitsErrorFile();
    default:  // it assigns again only after Drained; or it is too late
      return false;
  }
}

void Supervisor::OnAssignment(const Header& header, const Assignment& assignment, TimePoint now) {
  if (!MayBeAssigned() || header.generation <= generation_) return;  // overtaken
  if (options_.leases && now >= FenceTime(last_contact_, options_.spec.lease)) {
    // After a silence, on the session that there was before: it may be from before the silence, and
    // say nothing of now; or answer our newest Join. The answer to a heartbeat tells: until then
    // there is no lease under which anything could be prepared.
    unconfirmed_ = Unconfirmed{header.generation, assignment};
    SendHeartbeat(now);
    return;
  }
  Take(header.generation, assignment);
}

void Supervisor::Take(Generation generation, const Assignment& assignment) {
  generation_ = generation;
  assignment_ = assignment;
  const std::optional<RestorePlan>& restore = assignment.restore;
  durable_ = durable_ || (restore && restore->state && restore->state->tier == Tier::kDurable);
  unconfirmed_.reset();
  folders_ = {};
  workers_.clear();
  last_ended_ms_ = 0;
  exits_.clear();
  drained_.reset();
  checkpoint_.reset();
  prepared_ = true;
  Enter(SupervisorState::kSpawning);
  outbox_.Push(PrepareFolders{generation_, assignment_.first_rank});
  SendUp(AssignmentAck{});
}

void Supervisor::OnStart(const Header& header, TimePoint now) {
  if (state_ != SupervisorState::kSpawning || header.generation != generation_) return;
  workers_.assign(options_.node.worker_count, Worker{});
  Enter(SupervisorState::kRunning);
  if (folders_.ready) StartWorkers(now);
}

void Supervisor::OnSave(const Header& header) {
  // Not Running: there is nobody to ask, as the rendezvous hears in other words.
  if (state_ != SupervisorState::kRunning || header.generation != generation_) return;
  std::vector<LocalRank> speakers = Alive();
  std::erase_if(speakers, [&](LocalRank local_rank) { return !Find(local_rank)->speaks; });
  if (speakers.empty()) {
    SendUp(CannotSave{});
  } else {
    outbox_.Push(AskWorkersToSave{std::move(speakers)});
  }
}

void Supervisor::OnStop(const Header& header, const Stop& stop, TimePoint now) {
  if (header.generation != generation_) return;
  if (state_ == SupervisorState::kSpawning) {  // the Start was lost with a session
    Drain(0, false, now);
    return;
  }
  // Stopping: our own failure came first, and the rendezvous tells everybody.
  if (state_ != SupervisorState::kRunning) return;
  Say(absl::StrCat("generation ", generation_.value, " ends: ", stop.reason));
  StopWorkers(SupervisorState::kStopping, SIGTERM, now);
}

void Supervisor::OnFinished(const Finished& finished, TimePoint now) {
  if (state_ == SupervisorState::kLeaving) return;  // this node's own end is decided
  if (!options_.unfit.empty()) {                    // however the others end
    verdict_ = Verdict::Own("left", kExitUnavailable,
                            absl::StrCat(options_.node.host, " stays out: ", options_.unfit));
  } else {
    if (generation_.value < 0) Say("the job is over; this node has started nothing");
    verdict_ = Verdict{ToString(finished.outcome),  finished.exit_code,  finished.reason,
                       finished.restarts_used,      finished.root_cause, finished.earlier,
                       finished.failed_checkpoints, finished.left_out};
  }
  // When the workers are gone.
  if (state_ == SupervisorState::kStopping || state_ == SupervisorState::kFenced) return;
  StopWorkers(SupervisorState::kStopping, SIGTERM, now);
}

void Supervisor::OnFenced(const Header& header, const Fenced& fenced, TimePoint now) {
  // It answers what this agent said in an earlier generation, and crossed our Join on its way.
  if (header.generation != generation_) return;
  switch (state_) {
    case SupervisorState::kJoining:  // no worker is here: as before, but the rendezvous forgot us
      Introduce(now);
      break;
    case SupervisorState::kStopping:
      if (verdict_) break;  // the job is over
      [[fallthrough]];
    case SupervisorState::kSpawning:
    case SupervisorState::kRunning:
    case SupervisorState::kLeaving:
      Fence(fenced.reason, now);
      break;
    default:
      break;  // Fenced: so we are
  }
}

void Supervisor::OnRefused(const Refused& refused, TimePoint now) {
  if (state_ == SupervisorState::kLeaving) {  // as it was decided, but without grace
    if (stop_signal_ != SIGKILL) StopWorkers(SupervisorState::kLeaving, SIGKILL, now);
    return;
  }
  verdict_ = Verdict::Own("refused", kExitRefused, refused.reason);
  if (state_ == SupervisorState::kFenced) return;  // when the workers are gone
  StopWorkers(SupervisorState::kStopping, SIGKILL, now);
}

// ---- helpers ----

WorkerExited Supervisor::ExitReport(LocalRank local_rank, ExitStatus status) const {
  const Worker& worker = workers_[local_rank.value];
  WorkerExited report;
  report.rank = Rank{assignment_.first_rank.value + local_rank.value};
  report.local_rank = local_rank;
  report.pid = worker.pid;
  report.status = status;
  report.step = worker.step;
  report.error_kind = worker.error_kind;
  report.error_text = worker.error_text;
  return report;
}

Supervisor::Worker* Supervisor::Find(LocalRank local_rank) {
  const auto index = static_cast<std::size_t>(local_rank.value);
  return index < workers_.size() ? &workers_[index] : nullptr;
}

bool Supervisor::AwaitsErrorFile() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Worker& worker) { return worker.ended.has_value(); });
}

std::vector<LocalRank> Supervisor::Alive() const {
  std::vector<LocalRank> alive;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].alive) alive.push_back(LocalRank{static_cast<int>(i)});
  }
  return alive;
}

void Supervisor::SendUp(AgentMessage message) {
  if (!joined_) return;  // the next session begins with all of it
  outbox_.Push(Send{header(), std::move(message)});
}

void Supervisor::SendReport(AgentMessage message, bool workers_running) {
  if (!joined_) return;
  if (!workers_running && generation_.value >= 0) outbox_.Clear();
  outbox_.Report(Send{header(), std::move(message)}, workers_running);
}

void Supervisor::Say(std::string text) { outbox_.Push(Note{std::move(text)}); }

}  // namespace ddprun
