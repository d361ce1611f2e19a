// JobMachine: what it does where no rank moves.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/words.h"
#include "rendezvous/machine/hang_verdict.h"
#include "rendezvous/machine/job_machine.h"

namespace ddprun {

void JobMachine::TakeProgress(Node& node, const NodeProgress& progress) {
  if (node.phase != Phase::kStarted) return;
  const Duration still = now_ - generation_.hang.last_moved();
  const bool over = generation_.hang.Take(node.progress, progress, now_, &life_.intervals);
  node.progress = progress;
  if (!over) return;
  timers_.hang_again.reset();
  const std::string text = absl::StrCat("job ", job_, " moves again, after ", Seconds(still));
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
    return !node.member() || !node.progress || node.progress->workers == 0 ||
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
    if (node == nullptr || !node->progress) continue;
    for (const StillWorker& worker : node->progress->still_workers) {
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
  WarnAll(absl::StrCat("job ", job_, " hangs: ", standstill));
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
