// JobMachine: what time does to it; and that no rank moves.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/check.h"
#include "rendezvous/core/exit_codes.h"
#include "rendezvous/core/words.h"
#include "rendezvous/hangs/hang_verdict.h"
#include "rendezvous/machine/job_machine.h"

namespace ddprun {

void JobMachine::OnTick() {
  if (finished_) return;
  LoseSilent();
  if (finished_) return;
  if (timers_.report && now_ >= *timers_.report) {
    const std::string reason = WhyItWaits(View());
    Log(reason);
    for (const Node& node : roster_.nodes()) {
      if (!node.member() && !node.suspect) SendTo(node, Waiting{reason});
    }
    timers_.report_interval =
        std::min<Duration>(2 * timers_.report_interval, std::chrono::minutes(1));
    timers_.report = now_ + timers_.report_interval;
  }
  if (timers_.admission && now_ >= *timers_.admission) AdmitHeldBack();
  ConsiderHang();
  if (hold_until_ && now_ >= *hold_until_) {
    hold_until_.reset();
    LoseSight();  // until now such workers may have written
  }
  if (!timers_.state || now_ < *timers_.state) return;
  timers_.state.reset();
  switch (state_) {
    case JobState::kGathering:
      GiveUpWaiting();
      break;
    case JobState::kLastCall:
      // Some may have been lost just above; then Advance goes back to Gathering.
      if (roster_.free() >= life_.spec->min_nodes) FormWithAllStates();
      break;
    case JobState::kForming:
      LoseUnprepared();
      break;
    case JobState::kSaving:
      Log(absl::StrCat("no checkpoint came within ", Seconds(life_.spec->save_timeout)));
      StopGeneration(life_.plan->reason);
      break;
    case JobState::kBackoff:
      Gather();
      break;
    default:
      DDPRUN_CHECK(false, "a state without a deadline has one");
  }
}

// Slurm can start the job again on other nodes, and it is worth it where there is a state.
void JobMachine::GiveUpWaiting() {
  const std::string reason = absl::StrCat(
      "only ", roster_.free(), " of at least ", Nodes(life_.spec->min_nodes), " joined within ",
      Seconds(life_.spec->join_timeout), "; ", MissingNodes(View()));
  const auto step = DurableStep();
  if (life_.spec->all_nodes > 0 && step) {
    Finish(Outcome::kPreempted, kExitPreempted,
           absl::StrCat(reason, "; the last checkpoint is of step ", *step));
  } else {
    Finish(Outcome::kUnreachable, kExitUnavailable, reason);
  }
}

void JobMachine::LoseSilent() {
  if (!options_.leases || !life_.spec) return;
  for (Node* node = roster_.MostSilent();
       !finished_ && node != nullptr && now_ >= node->heard + life_.spec->lease;
       node = roster_.MostSilent()) {
    if (running() && node->done()) {
      // Its part is finished; it is missed only if the group re-forms.
      roster_.SetSuspect(*node, true);
      roster_.EndLease(*node);
    } else {
      Lose(*node, HowLost::kSilent, absl::StrCat("nothing heard for ", Seconds(life_.spec->lease)));
    }
  }
}

void JobMachine::AdmitHeldBack() {
  timers_.admission.reset();
  for (Node& node : roster_.nodes()) {
    if (!node.held_back) continue;
    const TimePoint until = node.held_back->until;
    if (now_ >= until) {
      roster_.SetHeldBack(node, std::nullopt);
      Log(absl::StrCat(node.spec.host, " is admitted again"));
    } else {
      timers_.admission = std::min(timers_.admission.value_or(until), until);
    }
  }
}

void JobMachine::LoseUnprepared() {
  const std::string why =
      absl::StrCat("it did not prepare its ranks within ", Seconds(options_.forming_timeout));
  std::vector<AgentId> unprepared;
  for (const Node& node : roster_.nodes()) {
    if (node.phase == Phase::kAssigned) unprepared.push_back(node.agent_id);
  }
  for (const AgentId agent_id : unprepared) {
    if (Node* const node = roster_.Find(agent_id); node != nullptr && !finished_) {
      SendTo(*node, Fenced{absl::StrCat("out of the generation: ", why)});
      Lose(*node, HowLost::kSilent, why);
    }
  }
}

std::optional<TimePoint> JobMachine::NextDeadline() {
  if (finished_ || !life_.spec) return std::nullopt;
  std::optional<TimePoint> next = timers_.state;
  const auto consider = [&next](const std::optional<TimePoint>& time) {
    if (time && (!next || *time < *next)) next = time;
  };
  consider(timers_.victim_grace);
  consider(timers_.report);
  consider(hold_until_);
  if (states_wait_) consider(states_wait_->until);
  consider(timers_.growth);
  consider(timers_.admission);
  consider(HangDeadline());
  if (options_.leases) {
    if (const Node* node = roster_.MostSilent()) consider(node->heard + life_.spec->lease);
  }
  return next;
}

// ---- hangs ----

void JobMachine::TakeProgress(Node& node, const NodeProgress& progress) {
  if (node.phase != Phase::kStarted) return;
  const Duration still = now_ - generation_.hang.last_moved();
  const bool over = generation_.hang.Take(node.agent_id, progress, now_, &life_.intervals);
  if (!over) return;
  timers_.hang_again.reset();
  const std::string text = absl::StrCat(NameOfJob(job_), " moves again, after ", Seconds(still));
  Emit({.kind = JobEvent::Kind::kMovedAgain, .host = node.spec.host, .reason = text});
  WarnAll(text);
}

Duration JobMachine::HangLimit() const {
  const HangPolicy policy = PolicyOfHangs(*life_.spec);
  const Duration limit = generation_.hang.Limit(policy, life_.intervals);
  // A rank that has finished its part leaves the others with what takes as long as it takes.
  const bool tail = generation_.tally.workers_succeeded > 0;
  return tail ? std::max(limit, policy.startup_limit) : limit;
}

void JobMachine::AddProgress(JobStatus* status, TimePoint now) const {
  if (!running() || !generation_.hang.judges()) return;
  JobStatus::Progress progress;
  progress.still = std::max(now - generation_.hang.last_moved(), Duration{});
  if (PolicyOfHangs(*life_.spec).watches) progress.limit = HangLimit();
  if (generation_.hang.called()) progress.hang = generation_.hang_report;
  status->progress = std::move(progress);
}

std::optional<TimePoint> JobMachine::HangDeadline() const {
  if (state_ != JobState::kRunning || !life_.spec || !PolicyOfHangs(*life_.spec).watches ||
      !generation_.hang.judges() || generation_.incidents.any()) {
    return std::nullopt;
  }
  if (generation_.hang.called()) return timers_.hang_again;
  const TimePoint at = generation_.hang.last_moved() + HangLimit();
  return timers_.hang_again ? std::max(at, *timers_.hang_again) : at;
}

// Every node that tells of its workers was heard a moment ago: their ranks do not move now.
bool JobMachine::KnowsEveryRank() const {
  const Duration fresh = 2 * life_.spec->heartbeat + std::chrono::milliseconds(500);
  const auto& nodes = roster_.nodes();
  return std::all_of(nodes.begin(), nodes.end(), [&](const Node& node) {
    return !node.member() || generation_.hang.Find(node.agent_id) == nullptr ||
           (!node.suspect && now_ - node.heard <= fresh);
  });
}

void JobMachine::ConsiderHang() {
  const auto deadline = HangDeadline();
  if (!deadline || now_ < *deadline) return;
  if (!KnowsEveryRank()) {
    timers_.hang_again = now_ + life_.spec->heartbeat;
    return;
  }
  timers_.hang_again.reset();
  std::vector<StillRank> ranks;
  for (const Node* const node : roster_.members()) {
    const auto* told = node == nullptr ? nullptr : generation_.hang.Find(node->agent_id);
    if (told == nullptr) continue;
    for (const StillWorker& worker : told->still_workers) {
      ranks.push_back({Rank{node->first_rank.value + worker.local_rank.value}, node->spec.host,
                       node->rank, worker});
    }
  }
  const HangVerdict verdict = FindCulprit(ranks);
  const bool again = generation_.hang.called();
  const std::string standstill = DescribeStandstill(now_ - generation_.hang.last_moved(),
                                                    HangLimit(), generation_.furthest_step);
  const auto [restart, next] = AfterHang(verdict, again);
  if (!again) CallHang(verdict, standstill, next);
  generation_.hang.Call();
  if (!restart || !verdict.culprit) return;
  generation_.incidents.AddHang(FailureOf(*verdict.culprit, generation_.number),
                                absl::StrCat(verdict.why, "; ", standstill));
  // Advance stops the generation.
}

void JobMachine::CallHang(const HangVerdict& verdict, const std::string& standstill,
                          const std::string& next) {
  RootCause cause;
  cause.kind = RootCause::Kind::kHung;
  if (verdict.culprit) cause.failure = FailureOf(*verdict.culprit, generation_.number);
  cause.reason = absl::StrCat(verdict.why, "; ", standstill);
  generation_.hang_report = absl::StrCat("hangs: ", cause.reason);
  WarnAll(absl::StrCat(NameOfJob(job_), " hangs: ", standstill));
  WarnAll(verdict.why);
  WarnAll(next);
  JobEvent event{.kind = JobEvent::Kind::kHung,
                 .reason = absl::StrCat(standstill, "; ", verdict.why)};
  if (verdict.culprit) {
    event.host = verdict.culprit->host;
    event.cause = std::move(cause);
  }
  event.step = generation_.furthest_step;
  Emit(std::move(event));
}

// Whether the workers are started again, and what a person reads of it.
std::pair<bool, std::string> JobMachine::AfterHang(const HangVerdict& verdict, bool again) {
  const JobSpec& spec = *life_.spec;
  const bool tail = generation_.tally.workers_succeeded > 0;
  if (spec.on_hang == JobSpec::kReportHang || tail) {
    return {false, tail ? "a rank has ended with 0: the others are left alone"
                        : "the workers are left alone (--on-hang report)"};
  }
  if (spec.on_hang == JobSpec::kRestartHang) {
    return {true, "the workers are ended, and started again where a restart is left"};
  }
  const bool loses_nothing =
      life_.told_of_states || life_.reports_checkpoints || !generation_.furthest_step;
  if (!generation_.hang.names_phases() || !loses_nothing) {
    return {false,
            generation_.hang.names_phases()
                ? "the workers are left alone: no state was saved yet (--on-hang restart starts "
                  "them again all the same)"
                : "the workers are left alone: the program names no phases, so this may be an "
                  "evaluation (--on-hang restart starts them again all the same)"};
  }
  if (verdict.busy && !again) {
    const TimePoint at =
        std::max(generation_.hang.last_moved() + spec.hang_startup_timeout, now_ + spec.heartbeat);
    timers_.hang_again = at;
    return {false,
            absl::StrCat("it uses the CPU or does I/O, so it is ended only if it goes on for ",
                         Seconds(at - now_), " more (--hang-startup-timeout)")};
  }
  return {true, "the workers are ended, and started again where a restart is left"};
}

void JobMachine::WarnAll(const std::string& text) {
  Log(text);
  for (const Node& node : roster_.nodes()) {
    if (!node.suspect) SendTo(node, Warning{text});
  }
}

}  // namespace ddprun
