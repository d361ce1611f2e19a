#include "launcher/core/supervisor.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/core/lease.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/words.h"
#include "worker/contract/overloaded.h"

namespace ddprun {
namespace {

// How long an agent waits for the first word of the rendezvous before it says so.
constexpr std::chrono::seconds kQuietWait{1};

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
    DispatchAfterTheEnd(event, now);
  } else {
    DispatchInTime(event, now);
  }
  std::vector<Action> actions = outbox_.Release();
  AddStuck(&actions, now);
  return actions;
}

void Supervisor::DispatchInTime(const Event& event, TimePoint now) {
  if (const auto fence = FenceAt(); fence && now >= *fence) {
    Fence(absl::StrCat(options_.rendezvous, " was not heard for ",
                       TenthsOfSeconds(now - contact_.last)),
          now);
  }
  Dispatch(event, now);
  UpdateFence();
}

void Supervisor::Dispatch(const Event& event, TimePoint now) {
  std::visit(
      Overloaded{
          [&](const AgentStarted&) {
            contact_.lost_since = now;
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
            work_.tells = true;
            worker->speaks = worker->speaks || spoke.listens;
            checkpoints_ = checkpoints_ || spoke.checkpoints;
          },
          [&](const CheckpointReported& report) { OnCheckpointReported(report); },
          [&](const CheckpointFailureReported& report) { OnCheckpointFailureReported(report); },
          [&](const CheckpointDamageReported& report) { OnCheckpointDamageReported(report); },
          [&](const StepReported& report) {
            Worker* worker = Find(report.local_rank);
            if (worker != nullptr) worker->step = report.step;
            work_.tells = true;
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
          [&](const NodeCleared& cleared) { OnNodeCleared(cleared, now); },
          [&](const StuckProcessEnded& ended) { OnStuckProcessEnded(ended, now); },
          [&](const StatesFound&) {
            if (const auto look = outbox_.OnStatesFound()) SendUp(HeldStates{{}, *look});
          },
          [&](const PortOffered& offered) { outbox_.OnPortOffered(offered.port); },
          [&](const RestartMeasured& restart) {
            if (restart.times.generation == work_.generation) SendUp(RestartTimed{restart.times});
          },
          [&](const StartMeasured& start) {
            if (start.generation == work_.generation) work_.start = start.took;
          },
          [&](const WorkerStacksTaken& taken) { OnWorkerStacksTaken(taken, now); },
          [&](const WorkersLost& lost) { OnWorkersLost(lost); },
          [&](const Tick&) { OnTick(now); },
      },
      event);
}

void Supervisor::DispatchAfterTheEnd(const Event& event, TimePoint now) {
  std::visit(Overloaded{
                 [&](const NodeCleared& cleared) { OnNodeCleared(cleared, now); },
                 [&](const StatesFound&) { outbox_.OnStatesFound(); },
                 [&](const PortOffered& offered) { outbox_.OnPortOffered(offered.port); },
                 [&](const SessionOpened&) { EndSession(); },
                 [&](const SessionLost&) { EndSession(); },
                 [&](const WorkersLost& lost) {
                   if (!outbox_.empty()) LeaveWithoutWorkers(lost);  // else all was done
                 },
                 [&](const Tick&) {
                   if (HeartbeatsGoOn() && now >= session_.next_heartbeat) SendHeartbeat(now);
                 },
                 [](const auto&) {},
             },
             event);
}

Header Supervisor::header() const {
  return {options_.job, options_.requeue_number, work_.generation, options_.agent_id};
}

FailedCheckpoints Supervisor::failed_checkpoints() const {
  FailedCheckpoints failed = failed_;
  if (failed.count > 0) failed.last_host = options_.node.host;
  return failed;
}

std::optional<TimePoint> Supervisor::NextDeadline() const {
  if (ended()) {
    return HeartbeatsGoOn() ? std::optional(session_.next_heartbeat) : std::nullopt;
  }
  std::optional<TimePoint> next = deadline_;
  const auto also = [&](std::optional<TimePoint> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  also(FenceAt());
  also(GiveUpAt());
  also(SayWaitingAt());
  also(work_.kill_hung_at);
  if (state_ != SupervisorState::kLeaving) also(preempted_until_);
  if (SendsHeartbeats()) also(session_.next_heartbeat);
  return next;
}

// ---- the session ----

void Supervisor::EndSession() {
  outbox_.DropMessages();
  session_ = Session{};
}

void Supervisor::OnSessionOpened(TimePoint now) {
  EndSession();
  session_.open = true;
  // Fenced: when the workers are gone. With a verdict of the rendezvous: there is nothing to say.
  if (state_ == SupervisorState::kFenced) return;
  if (verdict_ && state_ != SupervisorState::kLeaving) return;
  Introduce(now);
}

void Supervisor::Introduce(TimePoint now) {
  unconfirmed_.reset();  // where it holds, it is said again
  const bool again = std::exchange(session_.joined, true);
  if (!again) {
    session_.joined_at = now;
    session_.next_heartbeat = now + options_.spec.heartbeat;
  }
  Join join{options_.spec, options_.node, 0, HasWorkers(), contact_.ever};
  join.failed_checkpoints = failed_;
  join.why_ineligible = options_.why_ineligible;
  join.program = options_.program;
  join.run_id = work_.assignment.run_id;
  join.can_look_again = true;
  session_.told_failures = failed_.count;
  const bool running = join.workers_running;
  SendReport(std::move(join), running);
  if (work_.acknowledged) SendUp(AssignmentAck{});
  for (const WorkerExited& exit : work_.exits) SendUp(exit);
  if (work_.stopped) SendReport(*work_.stopped, /*workers_running=*/false);
  if (preempted_until_) SendUp(Preempted{absl::StrCat(options_.node.host, " got SIGTERM")});
  // What answers a later Join may have crossed it: only an acknowledgement shows that it was read,
  // and it has to come before the next assignment, or the lease would be over again.
  if (again && options_.leases) SendHeartbeat(now);
}

void Supervisor::OnSessionLost(const SessionLost& lost, TimePoint now) {
  const bool was_heard = session_.open && session_.heard;
  EndSession();
  if (lost.refused) HadContact(lost.attempt_started_at, now);
  contact_.why_lost = lost.reason;
  if (state_ == SupervisorState::kLeaving || verdict_) return;  // nothing more was to be heard
  if (lost.denied && !contact_.ever) {
    verdict_ = Verdict::Own(Outcome::kRefused, kExitRefused, lost.reason);
    StopWorkers(SupervisorState::kStopping, SIGKILL, now);
  } else if (!options_.leases) {
    GiveUp(now);
  } else if (was_heard) {
    contact_.lost_since = now;
    Log(absl::StrCat(lost.reason, "; connecting again",
                     Alive().empty() ? "" : ", and the workers go on meanwhile"));
  }
}

std::optional<TimePoint> Supervisor::GiveUpAt() const {
  if (!options_.leases || session_.open || verdict_) return std::nullopt;
  return contact_.lost_since + (contact_.ever ? options_.daemon_grace : options_.connect_timeout);
}

std::optional<TimePoint> Supervisor::SayWaitingAt() const {
  if (contact_.ever || contact_.said_waiting || !GiveUpAt()) return std::nullopt;
  return contact_.lost_since + kQuietWait;
}

void Supervisor::SayWaiting() {
  contact_.said_waiting = true;
  Log(absl::StrCat("waiting for ", options_.rendezvous, ", at most ",
                   Seconds(options_.connect_timeout),
                   contact_.why_lost.empty() ? "" : "; so far: ", contact_.why_lost,
                   options_.unreachable_hint.empty() ? "" : "; ", options_.unreachable_hint));
}

void Supervisor::GiveUp(TimePoint now) {
  std::string reason = contact_.why_lost.empty()
                           ? absl::StrCat(options_.rendezvous, " does not answer")
                           : contact_.why_lost;
  if (options_.leases) {
    absl::StrAppend(&reason, "; gave up after ", TenthsOfSeconds(now - contact_.lost_since));
  }
  if (!contact_.ever && !options_.unreachable_hint.empty()) {
    absl::StrAppend(&reason, "; ", options_.unreachable_hint);
  }
  verdict_ = Verdict::Own(Outcome::kUnreachable, kExitUnavailable, std::move(reason));
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
  return FenceTime(contact_.last, options_.spec.lease);
}

void Supervisor::HadContact(TimePoint at, TimePoint now) {
  contact_.last = std::max(contact_.last, std::min(at, now));
}

void Supervisor::Fence(const std::string& why, TimePoint now) {
  Log(absl::StrCat("fenced: ", why,
                   "; this node's ranks may be given to others by now, so none of its workers "
                   "lives on"));
  switch (state_) {
    case SupervisorState::kSpawning:
      GiveBackRanks(0, true, now);
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
    wanted = FenceTime(contact_.last, options_.spec.lease) + BackstopDelay(options_.spec.lease);
  }
  if (wanted == contact_.fence) return;
  contact_.fence = wanted;
  outbox_.Push(SetFence{wanted});
}

// ---- the rendezvous ----

void Supervisor::OnReceived(const Received& received, TimePoint now) {
  const Header& header = received.header;
  if (header.job != options_.job || header.requeue_number != options_.requeue_number ||
      header.agent_id != options_.agent_id) {
    return;  // meant for another agent, or for an earlier life of this one
  }
  if (!session_.joined) return;  // said on a session that is over
  // Whoever answers our Join has read it; and counts on us, unless it says that it does not.
  if (!std::holds_alternative<Refused>(received.message) &&
      !std::holds_alternative<Fenced>(received.message)) {
    HadContact(session_.joined_at, now);
  }
  session_.heard = contact_.ever = true;
  if (!contact_.why_lost.empty()) Log(absl::StrCat("connected to ", options_.rendezvous));
  contact_.why_lost.clear();
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
                 [&](const Warning& warning) { Log(warning.text); },
                 [&](const LookAgain& again) { OnLookAgain(again); },
                 [&](const TakeStacks& take) { OnTakeStacks(header, take); },
                 [&](const HangReported& hang) {
                   outbox_.Push(ShowHangStacks{header.generation, *hang.stacks});
                 },
             },
             received.message);
}

void Supervisor::OnWaiting(const Waiting& waiting) {
  if (state_ == SupervisorState::kJoining) Log(waiting.reason);
}

void Supervisor::OnHeartbeatAck(const HeartbeatAck& ack, TimePoint now) {
  // Not from now on: the answer may have been on its way for longer than the lease.
  HadContact(TimePoint(std::chrono::nanoseconds(ack.sent_at)), now);
  if (!unconfirmed_ || !MayBeAssigned()) return;
  if (now >= FenceTime(contact_.last, options_.spec.lease)) return;  // to a heartbeat before it
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
    default:  // it assigns again only after Stopped; or it is too late
      return false;
  }
}

void Supervisor::OnAssignment(const Header& header, const Assignment& assignment, TimePoint now) {
  if (!MayBeAssigned() || header.generation <= work_.generation) return;  // overtaken
  if (options_.leases && now >= FenceTime(contact_.last, options_.spec.lease)) {
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
  work_ = Work{};
  work_.generation = generation;
  work_.assignment = assignment;
  work_.acknowledged = true;
  const std::optional<RestorePlan>& restore = assignment.restore;
  durable_ = durable_ || (restore && restore->state && restore->state->tier == Tier::kDurable);
  unconfirmed_.reset();
  Enter(SupervisorState::kSpawning);
  outbox_.Push(PrepareFolders{generation, assignment.first_rank});
  SendUp(AssignmentAck{});
}

void Supervisor::OnStart(const Header& header, TimePoint now) {
  if (state_ != SupervisorState::kSpawning || header.generation != work_.generation) return;
  work_.workers.assign(options_.node.worker_count, Worker{});
  Enter(SupervisorState::kRunning);
  if (work_.folders.ready) StartWorkers(now);
}

void Supervisor::OnSave(const Header& header) {
  // Not Running: there is nobody to ask, as the rendezvous hears in other words.
  if (state_ != SupervisorState::kRunning || header.generation != work_.generation) return;
  std::vector<LocalRank> speakers = Alive();
  std::erase_if(speakers, [&](LocalRank local_rank) { return !Find(local_rank)->speaks; });
  if (speakers.empty()) {
    SendUp(CannotSave{});
  } else {
    outbox_.Push(AskWorkersToSave{std::move(speakers)});
  }
}

void Supervisor::OnStop(const Header& header, const Stop& stop, TimePoint now) {
  outbox_.Heard(stop.look);
  if (header.generation != work_.generation) return;
  if (state_ == SupervisorState::kSpawning) {  // the Start was lost with a session
    GiveBackRanks(0, false, now);
    return;
  }
  // Stopping: our own failure came first, and the rendezvous tells everybody.
  if (state_ != SupervisorState::kRunning) return;
  Log(absl::StrCat("generation ", work_.generation.value, " ends: ", stop.reason));
  if (stop.hung.empty()) return StopWorkers(SupervisorState::kStopping, SIGTERM, now);
  StopHung(stop.hung, now);
}

// Whatever generation it is about: the disk is the same.
void Supervisor::OnLookAgain(const LookAgain& again) {
  outbox_.Heard(again.look);
  switch (state_) {
    case SupervisorState::kJoining:
    case SupervisorState::kSpawning:  // the forming was given up, and this came first
      outbox_.ScanAgain();
      break;
    default:
      break;  // it looks when its workers are gone; or it is at its end, and nobody waits for it
  }
}

// Where no worker is left the answer is empty: nobody waits for this node in vain.
void Supervisor::OnTakeStacks(const Header& header, const TakeStacks& take) {
  // Not Running: the generation is over, or not begun, and nobody waits for the answer.
  if (state_ != SupervisorState::kRunning || header.generation != work_.generation) return;
  TakeWorkerStacks action{work_.generation, take.request, {}};
  for (const LocalRank local_rank : Alive()) {
    const Worker& worker = *Find(local_rank);
    if (worker.starting) continue;
    action.workers.push_back(
        {Rank{work_.assignment.first_rank.value + local_rank.value}, worker.pid});
  }
  outbox_.Push(std::move(action));
}

void Supervisor::OnWorkerStacksTaken(const WorkerStacksTaken& taken, TimePoint now) {
  if (taken.generation != work_.generation) return;
  // First how far the workers are by now: a verdict may wait for these stacks alone.
  if (SendsHeartbeats()) SendHeartbeat(now);
  SendUp(StacksTaken{taken.request, std::make_shared<const EncodedStackTree>(taken.tree)});
}

void Supervisor::OnFinished(const Finished& finished, TimePoint now) {
  job_is_over_ = job_is_over_ || finished.job_is_over;
  if (state_ == SupervisorState::kLeaving) return;  // this node's own end is decided
  if (!options_.why_ineligible.empty()) {           // however the others end
    verdict_ =
        Verdict::Own(Outcome::kLeft, kExitUnavailable,
                     absl::StrCat(options_.node.host, " stays out: ", options_.why_ineligible));
  } else {
    if (work_.generation.value < 0) Log("the job is over; this node has started nothing");
    verdict_ = Verdict{finished.outcome,
                       finished.exit_code,
                       finished.reason,
                       finished.restarts_used,
                       finished.root_cause,
                       finished.earlier,
                       finished.failed_checkpoints,
                       finished.left_out};
  }
  // When the workers are gone.
  if (state_ == SupervisorState::kStopping || state_ == SupervisorState::kFenced) return;
  StopWorkers(SupervisorState::kStopping, SIGTERM, now);
}

void Supervisor::OnFenced(const Header& header, const Fenced& fenced, TimePoint now) {
  // It answers what this agent said in an earlier generation, and crossed our Join on its way.
  if (header.generation != work_.generation) return;
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
  verdict_ = Verdict::Own(Outcome::kRefused, kExitRefused, refused.reason);
  if (state_ == SupervisorState::kFenced) return;  // when the workers are gone
  StopWorkers(SupervisorState::kStopping, SIGKILL, now);
}

// ---- helpers ----

WorkerExited Supervisor::ExitReport(LocalRank local_rank, ExitStatus status) const {
  const Worker& worker = work_.workers[local_rank.value];
  WorkerExited report;
  report.rank = Rank{work_.assignment.first_rank.value + local_rank.value};
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
  return index < work_.workers.size() ? &work_.workers[index] : nullptr;
}

bool Supervisor::AwaitsErrorFile() const {
  return std::any_of(work_.workers.begin(), work_.workers.end(),
                     [](const Worker& worker) { return worker.ended.has_value(); });
}

std::vector<LocalRank> Supervisor::Alive() const {
  std::vector<LocalRank> alive;
  for (std::size_t i = 0; i < work_.workers.size(); ++i) {
    if (work_.workers[i].alive) alive.push_back(LocalRank{static_cast<int>(i)});
  }
  return alive;
}

void Supervisor::SendUp(AgentMessage message) {
  if (!session_.joined) return;  // the next session begins with all of it
  outbox_.Push(Send{header(), std::move(message)});
}

void Supervisor::SendReport(AgentMessage message, bool workers_running) {
  if (!session_.joined) return;
  if (!workers_running && work_.generation.value >= 0) outbox_.Clear();
  outbox_.Report(Send{header(), std::move(message)}, workers_running);
}

void Supervisor::Log(std::string text) { outbox_.Push(Note{std::move(text)}); }

}  // namespace ddprun
