#include "launcher/core/supervisor.h"

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/words.h"
#include "worker/contract/overloaded.h"

namespace ddprun {

Supervisor::Supervisor(SupervisorOptions options)
    : options_(std::move(options)), contact_(options_) {}

void Supervisor::Step(const Event& event, TimePoint now) {
  ended() ? DispatchAfterTheEnd(event, now) : DispatchInTime(event, now);
}

std::optional<Supervisor::Action> Supervisor::NextAction(TimePoint now) {
  std::optional<Action> action = outbox_.Next();
  if (action) stuck_.AddTo(&*action, now);
  return action;
}

void Supervisor::DispatchInTime(const Event& event, TimePoint now) {
  if (const auto fence = FenceAt(); fence && now >= *fence) {
    Fence(absl::StrCat(options_.rendezvous, " was not heard for ",
                       TenthsOfSeconds(now - contact_.last())),
          now);
  }
  Dispatch(event, now);
  UpdateFence();
}

void Supervisor::Dispatch(const Event& event, TimePoint now) {
  std::visit(
      Overloaded{
          [&](const AgentStarted&) {
            contact_.Begin(now);
            outbox_.ScanAhead();  // in parallel with connecting
          },
          [&](const SessionOpened&) { OnSessionOpened(now); },
          [&](const Received& received) { OnReceived(received, now); },
          [&](const SessionLost& lost) { OnSessionLost(lost, now); },
          [&](const FoldersReady& ready) { OnFoldersReady(ready, now); },
          [&](const WorkerSpawned& spawned) { OnWorkerSpawned(spawned); },
          [&](const SpawnFailed& failed) { OnSpawnFailed(failed, now); },
          [&](const WorkerSpoke& spoke) { OnWorkerSpoke(spoke); },
          [&](const WorkerSaves& told) {
            NodeWork::Worker* worker = work_.Find(told.local_rank);
            if (worker != nullptr) worker->saves = told.saves;
          },
          [&](const WorkerStays& stays) { OnWorkerStays(stays); },
          [&](const WorkerCanStandBy&) { work_.can_stand_by = true; },
          [&](const StandbysStarted&) { OnStandbysStarted(); },
          [&](const WorkerLeft& left) { OnWorkerLeft(left, now); },
          [&](const CheckpointReported& report) { OnCheckpointReported(report); },
          [&](const CheckpointFailureReported& report) { OnCheckpointFailureReported(report); },
          [&](const CheckpointDamageReported& report) { OnCheckpointDamageReported(report); },
          [&](const StepReported& report) {
            NodeWork::Worker* worker = work_.Find(report.local_rank);
            if (worker != nullptr) worker->step = report.step;
            work_.tells = true;
          },
          [&](const ErrorReported& report) { OnErrorReported(report); },
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
          [&](const StoreOpened& opened) { OnStoreOpened(opened); },
          [&](const StoreFailed& failed) { OnStoreFailed(failed); },
          [&](const StoreSoughtElsewhere& sought) { OnStoreSoughtElsewhere(sought); },
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
                   if (!outbox_.empty()) LeaveWithoutWorkers(lost);  // empty: all is done
                 },
                 [&](const Tick&) {
                   if (HeartbeatsGoOn() && now >= session_.next_heartbeat) PushHeartbeat(now);
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
  std::optional<TimePoint> next = ending_.deadline;
  const auto also = [&](std::optional<TimePoint> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  also(FenceAt());
  also(GiveUpAt());
  if (GiveUpAt()) also(contact_.WaitingNoteAt());
  also(work_.kill_hung_at);
  also(work_.leave_until);
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
  // Fenced: the Join follows once the workers are gone. With a verdict: no Join, except in Leaving.
  if (state_ == SupervisorState::kFenced) return;
  if (verdict_ && state_ != SupervisorState::kLeaving) return;
  Introduce(now);
}

void Supervisor::Introduce(TimePoint now) {
  unconfirmed_.reset();  // if it still holds, the rendezvous repeats it
  const bool again = std::exchange(session_.joined, true);
  if (!again) {
    session_.joined_at = now;
    session_.next_heartbeat = now + options_.spec.heartbeat;
  }
  Join join{options_.spec, options_.node, 0, HasWorkers(), contact_.ever()};
  join.failed_checkpoints = failed_;
  join.why_ineligible = options_.why_ineligible;
  join.program = options_.program;
  join.run_id = work_.assignment.run_id;
  join.can_look_again = true;
  join.can_start_standbys = true;
  session_.told_failures = failed_.count;
  const bool running = join.workers_running;
  SendReport(std::move(join), running);
  // While workers run, no AssignmentAck is needed, because all nodes have acknowledged. After a
  // takeover a leader gets thousands of messages at once, so each saved message counts.
  if (work_.acknowledged && !running) SendUp(AssignmentAck{});
  for (const WorkerExited& exit : work_.exits) SendUp(exit);
  if (work_.stopped) SendReport(*work_.stopped, /*workers_running=*/false);
  if (!work_.store_elsewhere.empty()) SendUp(StoreElsewhere{work_.store_elsewhere});
  if (preempted_until_) SendUp(Preempted{absl::StrCat(options_.node.host, " got SIGTERM")});
  // Only the answer to a heartbeat shows that the repeated Join was read: the rendezvous may have
  // sent any other message before. The answer must come before the next assignment, or the lease
  // would be over again. So send a heartbeat at once. The same holds for the first Join to another
  // rendezvous that has taken over.
  const bool from_another = running && contact_.several();
  if ((again || from_another) && options_.leases) PushHeartbeat(now);
}

void Supervisor::OnSessionLost(const SessionLost& lost, TimePoint now) {
  const bool was_heard = session_.open && session_.heard;
  EndSession();
  if (lost.refused && !contact_.several()) contact_.Had(lost.attempt_started_at, now);
  contact_.Failed(lost.reason);
  if (state_ == SupervisorState::kLeaving || verdict_) return;  // nothing more was to be heard
  if (lost.denied && !contact_.ever()) {
    verdict_ = Verdict::OfAgent(Outcome::kRefused, kExitRefused, lost.reason);
    StopWorkers(SupervisorState::kStopping, SIGKILL, now);
  } else if (!options_.leases || (lost.useless && !contact_.ever())) {
    GiveUp(now);
  } else if (was_heard) {
    contact_.Lost(now);
    Log(absl::StrCat(lost.reason, "; connecting again",
                     work_.Alive().empty() ? "" : ", and the workers go on meanwhile"));
  }
}

std::optional<TimePoint> Supervisor::GiveUpAt() const {
  const bool has_session = session_.open && !session_.outdated;
  if (!options_.leases || has_session || verdict_) return std::nullopt;
  return contact_.GiveUpAt();
}

void Supervisor::GiveUp(TimePoint now) {
  verdict_ = Verdict::OfAgent(Outcome::kUnreachable, kExitUnavailable, contact_.WhyGivenUp(now));
  if (state_ == SupervisorState::kFenced) return;  // wait until the workers are gone
  // No grace: without the rendezvous, this node cannot know whether it still has its ranks.
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
      return !verdict_;  // with a verdict this node has no ranks any more
    case SupervisorState::kLeaving:
      return ending_.signo != SIGKILL;
    default:
      return false;
  }
}

std::optional<TimePoint> Supervisor::FenceAt() const {
  if (!NeedsLease()) return std::nullopt;
  return contact_.FenceAt();
}

void Supervisor::Fence(const std::string& why, TimePoint now) {
  Log(absl::StrCat(
      "fenced: ", why,
      "; other nodes may have this node's ranks by now, so the agent kills its workers"));
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
  if (options_.leases && !over && !work_.Alive().empty()) {
    wanted = contact_.BackstopAt();
  }
  if (wanted == fence_) return;
  fence_ = wanted;
  outbox_.Push(SetFence{wanted});
}

// ---- the rendezvous ----

void Supervisor::OnReceived(const Received& received, TimePoint now) {
  const Header& header = received.header;
  if (header.job != options_.job || header.requeue_number != options_.requeue_number ||
      header.agent_id != options_.agent_id) {
    return;  // not for this agent
  }
  if (!session_.joined) return;  // sent on a session that is over
  if (!Obeys(header.term, now)) return;
  // A rendezvous that answers our Join has read it, and counts our lease unless it says otherwise.
  if (!std::holds_alternative<Refused>(received.message) &&
      !std::holds_alternative<Fenced>(received.message)) {
    contact_.Had(session_.joined_at, now);
  }
  session_.heard = true;
  if (std::string news = contact_.Heard(); !news.empty()) Log(std::move(news));
  std::visit(Overloaded{
                 [&](const Waiting& waiting) { OnWaiting(waiting); },
                 [&](const HeartbeatAck& ack) { OnHeartbeatAck(ack, now); },
                 [&](const Assignment& assignment) { OnAssignment(header, assignment, now); },
                 [&](const Start&) { OnStart(header, now); }, [&](const Save&) { OnSave(header); },
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
                 [](const LogOrder&) {},  // handled by the agent's LogReads
             },
             received.message);
}

void Supervisor::OnWaiting(const Waiting& waiting) {
  if (state_ != SupervisorState::kJoining) return;
  Log(waiting.reason);
  if (!waiting.start_standbys) return;
  session_.wants_standbys = true;
  if (work_.standbys_ready) {
    SendUp(StandbysReady{});
  } else {
    outbox_.Push(StartStandbys{});
  }
}

void Supervisor::OnStandbysStarted() {
  if (state_ != SupervisorState::kJoining) return;  // this node has ranks, or ends
  work_.standbys_ready = true;
  // An earlier version of the rendezvous does not know this message.
  if (session_.wants_standbys) SendUp(StandbysReady{});
}

void Supervisor::OnHeartbeatAck(const HeartbeatAck& ack, TimePoint now) {
  // The lease begins at sent_at, not now: the answer may have taken longer than the lease.
  contact_.Answered(TimePoint(std::chrono::nanoseconds(ack.sent_at)), now);
  if (!unconfirmed_ || !MayBeAssigned()) return;
  if (now >= contact_.FenceAt()) return;  // answers an older heartbeat
  const Unconfirmed taken = *std::exchange(unconfirmed_, std::nullopt);
  Take(taken.generation, taken.assignment);
}

bool Supervisor::MayBeAssigned() const {
  switch (state_) {
    case SupervisorState::kJoining:
    case SupervisorState::kSpawning:  // another node was lost; this is the next forming
      return true;
    case SupervisorState::kRunning:  // no worker is left, and the rendezvous went on without our
                                     // reports
      return !HasWorkers() && !work_.AwaitsErrorFile();
    default:  // the next assignment comes only after Stopped, or it comes too late
      return false;
  }
}

void Supervisor::OnAssignment(const Header& header, const Assignment& assignment, TimePoint now) {
  if (!MayBeAssigned() || header.generation <= work_.generation) return;  // overtaken
  if (options_.leases && now >= contact_.FenceAt()) {
    // After a silence on the same session, this assignment may be from before the silence, or the
    // answer to our newest Join. The answer to a heartbeat decides. Until then there is no lease,
    // so no worker may be prepared.
    unconfirmed_ = Unconfirmed{header.generation, assignment};
    PushHeartbeat(now);
    return;
  }
  Take(header.generation, assignment);
}

void Supervisor::Take(Generation generation, const Assignment& assignment) {
  const bool serves = assignment.agent_store && assignment.first_rank == Rank{0};
  if (!serves) EndStore();
  work_ = NodeWork{};
  work_.generation = generation;
  work_.assignment = assignment;
  const std::optional<RestorePlan>& restore = assignment.restore;
  durable_ = durable_ || (restore && restore->state && restore->state->tier == Tier::kDurable);
  unconfirmed_.reset();
  Enter(SupervisorState::kSpawning);
  outbox_.Push(PrepareFolders{generation, assignment.first_rank});
  if (!serves) return Acknowledge();
  work_.store = NodeWork::Store::kOpening;
  outbox_.Push(
      OpenStore{generation, assignment.master_addr, assignment.master_port, assignment.world_size});
}

void Supervisor::Acknowledge() {
  work_.acknowledged = true;
  SendUp(AssignmentAck{});
}

void Supervisor::OnStart(const Header& header, TimePoint now) {
  if (state_ != SupervisorState::kSpawning || header.generation != work_.generation) return;
  work_.workers.assign(options_.node.worker_count, NodeWork::Worker{});
  Enter(SupervisorState::kRunning);
  if (work_.folders.ready) StartWorkers(now);
}

void Supervisor::OnSave(const Header& header) {
  // Not Running: no worker to ask; the rendezvous learns this from other messages.
  if (state_ != SupervisorState::kRunning || header.generation != work_.generation) return;
  std::vector<LocalRank> able = work_.AbleToSave();
  if (able.empty()) {
    SendUp(CannotSave{});
  } else {
    outbox_.Push(AskWorkersToSave{std::move(able)});
  }
}

void Supervisor::OnStop(const Header& header, const Stop& stop, TimePoint now) {
  outbox_.Heard(stop.look);
  if (header.generation != work_.generation) return;
  if (state_ == SupervisorState::kSpawning) {  // the Start was lost with its session
    GiveBackRanks(0, false, now);
    return;
  }
  // Stopping: this node's own failure came first; the rendezvous sends Stop to all nodes.
  if (state_ != SupervisorState::kRunning) return;
  Log(absl::StrCat("generation ", work_.generation.value, " ends: ", stop.reason));
  EndGeneration(stop.hung, now);
}

// The generation does not matter: the disk is the same.
void Supervisor::OnLookAgain(const LookAgain& again) {
  outbox_.Heard(again.look, again.run_id);
  switch (state_) {
    case SupervisorState::kJoining:
    case SupervisorState::kSpawning:  // the forming was given up, and this message overtook the
                                      // news
      outbox_.ScanAgain();
      break;
    default:
      break;  // the scan follows once the workers are gone, or this agent ends and needs no scan
  }
}

// Without workers the answer is empty, so that the rendezvous need not wait for this node.
void Supervisor::OnTakeStacks(const Header& header, const TakeStacks& take) {
  // Not Running: the generation is over or not begun, so no answer is awaited.
  if (state_ != SupervisorState::kRunning || header.generation != work_.generation) return;
  TakeWorkerStacks action{work_.generation, take.request, {}};
  for (const LocalRank local_rank : work_.WithProgram()) {
    action.workers.push_back({work_.RankOf(local_rank), work_.Find(local_rank)->pid});
  }
  outbox_.Push(std::move(action));
}

void Supervisor::OnWorkerStacksTaken(const WorkerStacksTaken& taken, TimePoint now) {
  if (taken.generation != work_.generation) return;
  // Send the newest progress first: the verdict may be made as soon as the stacks arrive.
  if (SendsHeartbeats()) PushHeartbeat(now);
  SendUp(StacksTaken{taken.request, std::make_shared<const EncodedStackTree>(taken.tree)});
}

void Supervisor::OnFinished(const Finished& finished, TimePoint now) {
  job_is_over_ = job_is_over_ || finished.job_is_over;
  if (state_ == SupervisorState::kLeaving) return;  // this node's end is already decided
  if (!options_.why_ineligible.empty()) {           // regardless of the job's outcome
    verdict_ =
        Verdict::OfAgent(Outcome::kLeft, kExitUnavailable,
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
                       finished.excluded};
  }
  // Wait until the workers are gone.
  if (state_ == SupervisorState::kStopping || state_ == SupervisorState::kFenced) return;
  StopWorkers(SupervisorState::kStopping, SIGTERM, now);
}

void Supervisor::OnFenced(const Header& header, const Fenced& fenced, TimePoint now) {
  // This Fenced answers a message of an earlier generation, which arrived before our Join.
  if (header.generation != work_.generation) return;
  switch (state_) {
    case SupervisorState::kJoining:  // no worker runs: only join again, because the rendezvous
                                     // forgot this node
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
      break;  // already fenced
  }
}

void Supervisor::OnRefused(const Refused& refused, TimePoint now) {
  if (state_ == SupervisorState::kLeaving) {  // keep the decision, but without grace
    if (ending_.signo != SIGKILL) StopWorkers(SupervisorState::kLeaving, SIGKILL, now);
    return;
  }
  verdict_ = Verdict::OfAgent(Outcome::kRefused, kExitRefused, refused.reason);
  if (state_ == SupervisorState::kFenced) return;  // wait until the workers are gone
  StopWorkers(SupervisorState::kStopping, SIGKILL, now);
}

// ---- helpers ----

void Supervisor::SendUp(AgentMessage message) {
  if (!session_.joined) return;  // Introduce() repeats the messages that decide the job's state
  outbox_.Push(Send{header(), std::move(message)});
}

void Supervisor::SendReport(AgentMessage message, bool workers_running) {
  if (!session_.joined) return;
  if (!workers_running && work_.generation.value >= 0) {
    outbox_.Clear(/*always=*/false, work_.MayBeExiting());
  }
  outbox_.Report(Send{header(), std::move(message)}, workers_running);
}

void Supervisor::Log(std::string text) { outbox_.Push(Note{std::move(text)}); }

}  // namespace ddprun
