#include "launcher/core/supervisor.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/overloaded.h"
#include "rendezvous/core/root_cause.h"

namespace ddprun {
namespace {

constexpr int kExitUnavailable = 69;  // EX_UNAVAILABLE: the rendezvous cannot be reached
constexpr int kExitRefused = 77;      // EX_NOPERM

const char* OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSucceeded:
      return "succeeded";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kLeft:
      return "left";
    case Outcome::kTimedOut:
      return "unreachable";
  }
  return "?";
}

// An end that this agent came to by itself, without the rendezvous.
Verdict OwnVerdict(std::string outcome, int exit_code, std::string reason) {
  Verdict verdict;
  verdict.outcome = std::move(outcome);
  verdict.exit_code = exit_code;
  verdict.reason = std::move(reason);
  return verdict;
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
    case SupervisorState::kDone:
      return "Done";
    case SupervisorState::kFailed:
      return "Failed";
  }
  return "?";
}

Supervisor::Supervisor(SupervisorOptions options) : options_(std::move(options)) {}

std::vector<Supervisor::Action> Supervisor::Step(const Event& event, TimePoint now) {
  actions_.clear();
  if (ended()) return {};  // Exit was the last action
  std::visit(Overloaded{
                 [&](const AgentStarted&) {
                   SendUp(Join{options_.spec, options_.node, 0});
                 },
                 [&](const Received& received) { OnReceived(received, now); },
                 [&](const SessionLost& lost) { OnSessionLost(lost, now); },
                 [&](const WorkerSpawned& spawned) { OnWorkerSpawned(spawned); },
                 [&](const SpawnFailed& failed) { OnSpawnFailed(failed, now); },
                 [&](const StepReported& report) {
                   if (Worker* worker = Find(report.local_rank)) worker->step = report.step;
                 },
                 [&](const ErrorReported& report) {
                   Worker* worker = Find(report.local_rank);
                   if (worker == nullptr) return;
                   worker->error_kind = report.kind;
                   worker->error_text = report.text;
                 },
                 [&](const WorkerEnded& ended) { OnWorkerEnded(ended, now); },
                 [&](const SignalReceived& signal) { OnSignal(signal, now); },
                 [&](const Tick&) { OnTick(now); },
             },
             event);
  return std::exchange(actions_, {});
}

Header Supervisor::header() const {
  return {options_.job, options_.epoch, generation_, options_.incarnation};
}

// ---- the rendezvous ----

void Supervisor::OnReceived(const Received& received, TimePoint now) {
  const Header& header = received.header;
  if (header.job != options_.job || header.epoch != options_.epoch ||
      header.incarnation != options_.incarnation) {
    return;  // meant for another agent, or for an earlier life of this one
  }
  std::visit(Overloaded{
                 [&](const Waiting& waiting) { OnWaiting(waiting); },
                 [&](const Assignment& assignment) { OnAssignment(header, assignment); },
                 [&](const Start&) { OnStart(header); },
                 [&](const Stop& stop) { OnStop(header, stop, now); },
                 [&](const Finished& finished) { OnFinished(finished, now); },
                 [&](const Refused& refused) { OnRefused(refused, now); },
             },
             received.message);
}

void Supervisor::OnWaiting(const Waiting& waiting) {
  if (state_ == SupervisorState::kJoining) Say(waiting.reason);
}

void Supervisor::OnAssignment(const Header& header, const Assignment& assignment) {
  // Spawning: the forming was abandoned because another node went away, and this is the next one.
  // Running, Stopping: the rendezvous assigns again only after Drained. Leaving: too late.
  if (state_ != SupervisorState::kJoining && state_ != SupervisorState::kSpawning) return;
  if (header.generation <= generation_) return;  // overtaken
  generation_ = header.generation;
  assignment_ = assignment;
  Enter(SupervisorState::kSpawning);
  SendUp(Prepared{});
}

void Supervisor::OnStart(const Header& header) {
  if (state_ != SupervisorState::kSpawning || header.generation != generation_) return;
  workers_.assign(options_.node.worker_count, Worker{});
  Enter(SupervisorState::kRunning);
  actions_.push_back(SpawnWorkers{generation_, assignment_});
}

void Supervisor::OnStop(const Header& header, const Stop& stop, TimePoint now) {
  // Stopping: our own failure came first, and the rendezvous tells everybody.
  if (state_ != SupervisorState::kRunning || header.generation != generation_) return;
  Say(absl::StrCat("generation ", generation_.value, " ends: ", stop.reason));
  StopWorkers(SupervisorState::kStopping, SIGTERM, now);
}

void Supervisor::OnFinished(const Finished& finished, TimePoint now) {
  if (state_ == SupervisorState::kLeaving) return;  // this node's own end is decided
  if (generation_.value < 0) Say("the job is over; this node has started nothing");
  verdict_ = Verdict{OutcomeName(finished.outcome), finished.exit_code,  finished.reason,
                     finished.restarts_used,        finished.root_cause, finished.earlier};
  if (state_ == SupervisorState::kStopping) return;  // when the workers are gone
  StopWorkers(SupervisorState::kStopping, SIGTERM, now);
}

void Supervisor::OnRefused(const Refused& refused, TimePoint now) {
  if (state_ == SupervisorState::kLeaving) return;
  // Once it was part of the job, a refusal means that its ranks are given to others by now.
  const bool was_member = generation_.value >= 0;
  verdict_ = OwnVerdict(was_member ? "unreachable" : "refused",
                        was_member ? kExitUnavailable : kExitRefused, refused.reason);
  StopWorkers(SupervisorState::kStopping, SIGKILL, now);
}

void Supervisor::OnSessionLost(const SessionLost& lost, TimePoint now) {
  if (state_ == SupervisorState::kLeaving || verdict_) return;  // nothing more was to be heard
  // Without the rendezvous nobody can tell whether our ranks are still ours: no grace.
  verdict_ = OwnVerdict(lost.refused ? "refused" : "unreachable",
                        lost.refused ? kExitRefused : kExitUnavailable, lost.reason);
  StopWorkers(SupervisorState::kStopping, SIGKILL, now);
}

// ---- workers ----

void Supervisor::OnWorkerSpawned(const WorkerSpawned& spawned) {
  Worker* worker = Find(spawned.local_rank);
  DDPRUN_CHECK(worker != nullptr && state_ == SupervisorState::kRunning, "spawned unasked");
  worker->pid = spawned.pid;
  worker->alive = true;
}

void Supervisor::OnSpawnFailed(const SpawnFailed& failed, TimePoint now) {
  DDPRUN_CHECK(state_ == SupervisorState::kRunning, "not asked to spawn");
  WorkerExited report = ExitReport(failed.local_rank, ExitStatus{failed.exit_code});
  report.error_kind = failed.permanent ? kErrorExec : kErrorSpawn;
  report.error_text = failed.reason;
  SendUp(std::move(report));
  StopWorkers(SupervisorState::kStopping, SIGTERM, now);
}

void Supervisor::OnWorkerEnded(const WorkerEnded& ended, TimePoint now) {
  Worker* worker = Find(ended.local_rank);
  DDPRUN_CHECK(worker != nullptr && worker->alive, "only a running worker can end");
  worker->alive = false;
  if (state_ != SupervisorState::kRunning) {  // we ended it, or it died of what we are ending
    SettleIfGone();
    return;
  }
  WorkerExited report = ExitReport(ended.local_rank, ended.status);
  report.stderr_tail = ended.stderr_tail;
  report.ended_at_ms = ended.ended_at_ms;
  report.oom_killed = ended.oom_killed;
  if (report.error_text.empty()) report.error_text = ended.error_file_text;
  if (!ended.status.ok()) {
    Say(Describe(WorkerFailure{options_.node.host, assignment_.node_rank, generation_, report}));
  }
  SendUp(report);
  // Exit code 0 while others run: wait for them, however long they take. A victim: the cause may be
  // on this node too and yet to be heard of; the rendezvous says when to stop waiting for it.
  if (ended.status.ok() || IsVictim(report)) return;
  StopWorkers(SupervisorState::kStopping, SIGTERM, now);
}

// ---- the user and time ----

void Supervisor::OnSignal(const SignalReceived& signal, TimePoint now) {
  if (signal.signo == SIGUSR1 || signal.signo == SIGUSR2) {
    if (const auto alive = Alive(); !alive.empty()) {
      actions_.push_back(SignalWorkers{signal.signo, alive});
    }
    return;
  }
  if (state_ == SupervisorState::kLeaving) {
    const bool from_a_keyboard = signal.signo == SIGINT || signal.signo == SIGQUIT;
    if (from_a_keyboard && now >= signalled_at_ + options_.repeat_guard) {  // asked twice: now
      StopWorkers(SupervisorState::kLeaving, SIGKILL, now);
    }
    return;
  }
  signalled_at_ = now;
  const std::string name = SignalName(signal.signo);
  Say(absl::StrCat("got ", name, ": ending this node's workers"));
  verdict_ = OwnVerdict("left", 128 + signal.signo, absl::StrCat("this agent got ", name));
  StopWorkers(SupervisorState::kLeaving, signal.signo, now);
}

void Supervisor::OnTick(TimePoint now) {
  if (!deadline_ || now < *deadline_) return;
  if (stop_signal_ != SIGKILL) {
    StopWorkers(state_, SIGKILL, now);
    return;
  }
  const std::string pids =
      absl::StrJoin(Alive(), ", ", [&](std::string* out, LocalRank local_rank) {
        absl::StrAppend(out, "rank ", assignment_.first_rank.value + local_rank.value, " (pid ",
                        workers_[local_rank.value].pid, ")");
      });
  Say(absl::StrCat(pids, " did not end after SIGKILL; going on without waiting for it"));
  for (Worker& worker : workers_) worker.alive = false;
  SettleIfGone();
}

// ---- transitions ----

void Supervisor::StopWorkers(SupervisorState next, int signo, TimePoint now) {
  if (state_ != next) Enter(next);
  stop_signal_ = signo;
  deadline_ = now + (signo == SIGKILL ? options_.kill_grace : options_.stop_grace);
  if (const auto alive = Alive(); !alive.empty()) {
    actions_.emplace_back(SignalWorkers{signo, alive});
  }
  SettleIfGone();
}

void Supervisor::SettleIfGone() {
  if (!Alive().empty()) return;
  deadline_.reset();
  if (state_ == SupervisorState::kLeaving) {
    SendUp(Leave{verdict_->reason, verdict_->exit_code});
    End(SupervisorState::kFailed, *std::move(verdict_));
  } else if (verdict_) {
    const bool over = verdict_->outcome == "succeeded" || verdict_->outcome == "failed" ||
                      verdict_->outcome == "left";
    End(over ? SupervisorState::kDone : SupervisorState::kFailed, *std::move(verdict_));
  } else {
    Enter(SupervisorState::kJoining);
    Drained drained;
    for (const Worker& worker : workers_)
      drained.last_step = std::max(drained.last_step, worker.step);
    SendUp(drained);
  }
}

void Supervisor::End(SupervisorState next, Verdict verdict) {
  Enter(next);
  actions_.push_back(Exit{std::move(verdict)});
}

void Supervisor::Enter(SupervisorState next) {
  const auto allowed = [&]() -> bool {
    using enum SupervisorState;
    switch (state_) {
      case kJoining:
        return next == kSpawning || next == kStopping || next == kLeaving;
      case kSpawning:
        return next != kJoining && next != kDone && next != kFailed;
      case kRunning:
        return next == kStopping || next == kLeaving;
      case kStopping:
        return next == kJoining || next == kLeaving || next == kDone || next == kFailed;
      case kLeaving:
        return next == kFailed;
      case kDone:
      case kFailed:
        return false;
    }
    return false;
  };
  DDPRUN_CHECK(allowed(), ToString(next));
  state_ = next;
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

std::vector<LocalRank> Supervisor::Alive() const {
  std::vector<LocalRank> alive;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].alive) alive.push_back(LocalRank{static_cast<int>(i)});
  }
  return alive;
}

void Supervisor::SendUp(AgentMessage message) {
  actions_.push_back(Send{header(), std::move(message)});
}

void Supervisor::Say(std::string text) { actions_.push_back(Note{std::move(text)}); }

}  // namespace ddprun
