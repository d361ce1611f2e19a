#include "rendezvous/machine/restart_governor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/root_cause.h"
#include "worker/contract/control.h"

namespace ddprun {

RestartPolicy PolicyOf(const JobSpec& spec) {
  return {spec.max_restarts, spec.restart_window, spec.never_restart_on};
}

RestartGovernor::RestartGovernor(RestartPolicy policy, std::uint64_t seed)
    : policy_(std::move(policy)), random_state_(seed) {}

RestartGovernor::RestartGovernor(RestartPolicy policy, const GovernorRecord& record, TimePoint now)
    : policy_(std::move(policy)),
      random_state_(record.random_state),
      restarts_used_(record.restarts_used),
      reports_steps_(record.reports_steps),
      fruitless_(record.fruitless),
      bind_retries_(record.bind_retries) {
  for (const Duration age : record.recent_ages) recent_.push_back(now - age);
}

GovernorRecord RestartGovernor::Record(TimePoint now) const {
  GovernorRecord record;
  record.restarts_used = restarts_used_;
  for (const TimePoint restart : recent_) record.recent_ages.push_back(now - restart);
  record.reports_steps = reports_steps_;
  record.fruitless = fruitless_;
  record.bind_retries = bind_retries_;
  record.random_state = random_state_;
  return record;
}

RestartGovernor::Decision RestartGovernor::OnGenerationEnded(const Facts& facts, TimePoint now) {
  const RootCause& cause = facts.cause;
  if (IsMembershipChange(cause)) return {true, {}, "the membership changed: no restart is spent"};
  const WorkerExited& exit = cause.failure.exit;
  if (exit.error_kind == control::kErrorBind && ++bind_retries_ <= kMaxBindRetries) {
    return {true, {}, "MASTER_PORT was taken: trying another one, no restart is spent"};
  }
  if (exit.error_kind != control::kErrorBind) bind_retries_ = 0;

  reports_steps_ = reports_steps_ || facts.made_step;
  const bool fruitful = facts.made_step || (!reports_steps_ && facts.ran >= kLongEnough);
  fruitless_ = fruitful ? 0 : fruitless_ + 1;

  if (IsPermanent(cause)) return GiveUp("a restart cannot cure it");
  if (exit.status.signal == 0 && std::find(policy_.never_on.begin(), policy_.never_on.end(),
                                           exit.status.code) != policy_.never_on.end()) {
    return GiveUp(absl::StrCat("exit code ", exit.status.code,
                               " is in restart.never_on: the job is not started again"));
  }
  if (policy_.window) {
    while (!recent_.empty() && now - recent_.front() > *policy_.window) recent_.pop_front();
  }
  const int used = Counted(now);
  if (used >= policy_.max_restarts) {
    return GiveUp(absl::StrCat("no restart is left (", used, " of ", policy_.max_restarts, " used",
                               policy_.window ? " within the window" : "", ")"));
  }
  if (reports_steps_ && fruitless_ >= kMaxFruitless) {
    return GiveUp(absl::StrCat(kMaxFruitless,
                               " generations in a row made no step: starting again does not help"));
  }
  // The first restart is immediate, whatever the first generation did.
  const Duration delay = restarts_used_ == 0 || fruitless_ == 0 ? Duration{} : NextDelay();
  ++restarts_used_;
  if (policy_.window) recent_.push_back(now);
  return {true, delay,
          absl::StrCat("restart ", used + 1, " of ", policy_.max_restarts,
                       policy_.window ? " within the window" : "")};
}

int RestartGovernor::restarts_left(TimePoint now) const {
  return std::max(0, policy_.max_restarts - Counted(now));
}

int RestartGovernor::Counted(TimePoint now) const {
  if (!policy_.window) return restarts_used_;
  return static_cast<int>(std::count_if(recent_.begin(), recent_.end(), [&](TimePoint restart) {
    return now - restart <= *policy_.window;
  }));
}

RestartGovernor::Decision RestartGovernor::GiveUp(std::string reason) const {
  return {false, {}, std::move(reason)};
}

Duration RestartGovernor::NextDelay() {
  Duration delay = kFirstDelay;
  for (int i = 1; i < fruitless_ && delay < kMaxDelay; ++i) delay *= 2;
  delay = std::min(delay, kMaxDelay);
  // From half to all of it, so that many jobs that died together do not come back together.
  const double factor = 0.5 + 0.5 * static_cast<double>(NextRandom() >> 11) / 9007199254740992.0;
  return std::chrono::duration_cast<Duration>(delay * factor);
}

// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
std::uint64_t RestartGovernor::NextRandom() {
  std::uint64_t z = (random_state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace ddprun
