#include "rendezvous/machine/restart_governor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/root_cause.h"

namespace ddprun {

RestartPolicy PolicyOf(const JobSpec& spec) {
  return {spec.max_restarts, spec.restart_window, spec.never_restart_on,
          spec.max_membership_changes};
}

WindowedCount::WindowedCount(std::optional<Duration> window, int total,
                             const std::vector<Duration>& recent_ages, TimePoint now)
    : window_(window), total_(total) {
  for (const Duration age : recent_ages) recent_.push_back(now - age);
}

void WindowedCount::Add(TimePoint now) {
  ++total_;
  if (!window_) return;
  while (!recent_.empty() && now - recent_.front() > *window_) recent_.pop_front();
  recent_.push_back(now);
}

int WindowedCount::At(TimePoint now) const {
  if (!window_) return total_;
  return static_cast<int>(std::count_if(recent_.begin(), recent_.end(),
                                        [&](TimePoint at) { return now - at <= *window_; }));
}

std::vector<Duration> WindowedCount::RecentAges(TimePoint now) const {
  std::vector<Duration> ages;
  for (const TimePoint at : recent_) ages.push_back(now - at);
  return ages;
}

RestartGovernor::RestartGovernor(RestartPolicy policy, std::uint64_t seed)
    : policy_(std::move(policy)),
      restarts_(policy_.window),
      membership_changes_(policy_.window),
      so_far_{.random_state = seed} {}

RestartGovernor::RestartGovernor(RestartPolicy policy, const GovernorRecord& record, TimePoint now)
    : policy_(std::move(policy)),
      restarts_(policy_.window, record.restarts_used, record.recent_ages, now),
      membership_changes_(policy_.window, record.membership_changes, record.membership_ages, now),
      so_far_(record) {}

GovernorRecord RestartGovernor::Record(TimePoint now) const {
  GovernorRecord record{so_far_};
  record.restarts_used = restarts_.total();
  record.recent_ages = restarts_.RecentAges(now);
  record.membership_changes = membership_changes_.total();
  record.membership_ages = membership_changes_.RecentAges(now);
  return record;
}

RestartGovernor::Decision RestartGovernor::OnGenerationEnded(const Facts& facts, TimePoint now) {
  const RootCause& cause = facts.cause;
  const WorkerExited& exit = cause.failure.exit;
  const bool taken_port = IsTakenPort(exit);
  so_far_.bind_retries = taken_port ? so_far_.bind_retries + 1 : 0;
  const bool tries_again = taken_port && so_far_.bind_retries <= kMaxBindRetries;
  // Another program's port says nothing about the job.
  const bool loops = IsCrashLoop(facts, /*is_crash=*/MadeByWorker(cause) && !tries_again);
  if (IsMembershipChange(cause)) return OnMembershipChange(now);
  if (tries_again) {
    return {true, {}, "MASTER_PORT was taken: the workers start again, no restart is spent"};
  }
  if (IsUnreadableState(cause)) {
    return GiveUp("the state of the training cannot be read: see the root cause for what to do");
  }
  if (IsPermanent(cause)) return GiveUp("a restart cannot cure it");
  if (exit.status.signal == 0 && std::find(policy_.never_on.begin(), policy_.never_on.end(),
                                           exit.status.code) != policy_.never_on.end()) {
    return GiveUp(absl::StrCat("exit code ", exit.status.code,
                               " is in restart.never_on: the job is not started again"));
  }
  const int used = restarts_.At(now);
  if (used >= policy_.max_restarts) {
    return GiveUp(absl::StrCat("no restart is left (", used, " of ", policy_.max_restarts, " used",
                               WithinTheWindow(), ")"));
  }
  if (so_far_.furthest_step && so_far_.stepless >= kMaxStepless) {
    return GiveUp(absl::StrCat(kMaxStepless,
                               " generations in a row made no step: starting again does not help"));
  }
  // The first restart is always immediate.
  const Duration delay = loops && restarts_.total() > 0 ? NextDelay() : Duration{};
  restarts_.Add(now);
  return {true, delay,
          absl::StrCat("restart ", used + 1, " of ", policy_.max_restarts, WithinTheWindow())};
}

RestartGovernor::Decision RestartGovernor::OnMembershipChange(TimePoint now) {
  const int limit = policy_.max_membership_changes;
  if (limit == 0) return {true, {}, "the membership changed: no restart is spent"};
  const int used = membership_changes_.At(now);
  if (used >= limit) {
    return GiveUp(absl::StrCat("no membership change is left (", used, " of ", limit, " used",
                               WithinTheWindow(), ": restart.max_membership_changes)"));
  }
  membership_changes_.Add(now);
  return {true,
          {},
          absl::StrCat("membership change ", used + 1, " of ", limit, WithinTheWindow(),
                       ": no restart is spent")};
}

bool RestartGovernor::IsCrashLoop(const Facts& facts, bool is_crash) {
  if (facts.start) so_far_.start = facts.start;
  const Duration soon =
      so_far_.start ? kStarts * std::max(*so_far_.start, kShortestStart) : kLongEnough;
  const bool further = facts.step > so_far_.furthest_step;  // nullopt is less than any step
  so_far_.furthest_step = std::max(so_far_.furthest_step, facts.step);
  if (further || facts.new_state || facts.ran >= soon) {
    so_far_.crashes = so_far_.stepless = 0;
    return false;
  }
  if (!is_crash) return false;
  ++so_far_.crashes;
  so_far_.stepless = facts.step ? 0 : so_far_.stepless + 1;
  return true;
}

int RestartGovernor::restarts_left(TimePoint now) const {
  return std::max(0, policy_.max_restarts - restarts_.At(now));
}

RestartGovernor::Decision RestartGovernor::GiveUp(std::string reason) const {
  return {false, {}, std::move(reason)};
}

Duration RestartGovernor::NextDelay() {
  Duration delay = kFirstDelay;
  for (int i = 1; i < so_far_.crashes && delay < kMaxDelay; ++i) delay *= 2;
  delay = std::min(delay, kMaxDelay);
  // A random factor from 1/2 to 1, so that many jobs that died together do not restart together.
  const double factor = 0.5 + 0.5 * static_cast<double>(NextRandom() >> 11) / 9007199254740992.0;
  return std::chrono::duration_cast<Duration>(delay * factor);
}

// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
std::uint64_t RestartGovernor::NextRandom() {
  std::uint64_t z = (so_far_.random_state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace ddprun
