#include "rendezvous/hangs/hang_watch.h"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

bool AnyIn(ProcessState state, const std::vector<StillWorker>& workers) {
  return std::any_of(workers.begin(), workers.end(),
                     [state](const StillWorker& worker) { return worker.state == state; });
}

}  // namespace

void PhaseIntervals::Learn(const std::string& phase, Duration interval) {
  learned_[phase] = ++times_;
  const auto [entry, is_new] = longest_.try_emplace(phase, interval);
  entry->second = std::max(entry->second, interval);
  if (longest_.size() <= kMaxPhases) return;
  const auto oldest =
      std::min_element(learned_.begin(), learned_.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  longest_.erase(oldest->first);
  learned_.erase(oldest);
}

std::optional<Duration> PhaseIntervals::Longest(const std::string& phase) const {
  const auto found = longest_.find(phase);
  return found == longest_.end() ? std::nullopt : std::optional(found->second);
}

HangPolicy PolicyOfHangs(const JobSpec& spec) {
  HangPolicy policy;
  policy.watches = spec.on_hang != JobSpec::kIgnoreHang;
  if (spec.hang_timeout > Duration{}) policy.limit = spec.hang_timeout;
  policy.startup_limit = spec.hang_startup_timeout > Duration{}
                             ? spec.hang_startup_timeout
                             : Duration(kDefaultHangStartupTimeout);
  return policy;
}

std::shared_ptr<const NodeProgress> HangWatch::Find(AgentId node) const {
  const auto found = reports_.find(node.value);
  if (found == reports_.end()) return nullptr;
  const auto& told = found->second.progress;
  const bool has_any =
      told->workers > 0 || !told->silent_workers.empty() || !told->leaving_workers.empty();
  return has_any ? told : nullptr;
}

bool HangWatch::Take(AgentId node, const NodeProgress& progress, TimePoint now,
                     PhaseIntervals* intervals) {
  static const auto nothing = std::make_shared<const NodeProgress>();
  Report& last = reports_.try_emplace(node.value, Report{nothing, now}).first->second;
  const NodeProgress& before = *last.progress;  // a new node: no workers
  const bool changed = before.phases != progress.phases ||
                       (before.workers > 0) != (progress.workers > 0) ||
                       before.silent_workers.empty() != progress.silent_workers.empty() ||
                       before.leaving_workers.empty() != progress.leaving_workers.empty();
  bool over = false;
  step_seen_ = step_seen_ || progress.stepped;
  // After the first reported step, silent ranks belong to programs that never report. They may use
  // a CPU for ever, so their excuse no longer counts. A debugger still counts: the other ranks may
  // wait for the rank that it holds.
  const bool silent_excused =
      progress.silent_excused &&
      (!step_seen_ || AnyIn(ProcessState::kTraced, progress.silent_workers));
  if (progress.workers > 0 || silent_excused) {
    const bool excused = progress.excused || silent_excused;
    const bool stopped = AnyIn(ProcessState::kStopped, progress.still_workers) ||
                         AnyIn(ProcessState::kStopped, progress.silent_workers);
    excused_ = excused_ || excused || stopped;
    const TimePoint moved = silent_excused ? now : now - progress.still;
    // If a heartbeat is handled late, now - still is too late. So only a new count proves a move.
    const bool may_have_moved = excused || progress.moves == 0 || progress.moves != before.moves;
    const bool has_moved = progress.moves != 0 ? progress.moves != before.moves : !excused;
    if (has_moved && progress.workers > 0) {
      really_moved_ = std::max(really_moved_, now - progress.still);
    }
    LearnPassed(progress, std::clamp(moved - last_moved_, Duration{}, now - last.at), intervals);
    if (may_have_moved && moved > last_moved_ + kMoveResolution) {
      if (!excused_ && !called_) {
        for (const std::string& phase : PhasesToLearn()) {
          intervals->Learn(phase, moved - last_moved_);
        }
      }
      last_moved_ = moved;
      // With an excuse, `moved` only says how much time counts; perhaps no rank has moved.
      if (!excused) {
        excused_ = false;
        over = std::exchange(called_, false);
      }
    }
  }
  if (changed) {
    Count(before, -1);
    Count(progress, 1);
  }
  TakeByes(progress, now);
  last = {std::make_shared<const NodeProgress>(progress), now};
  return over;
}

void HangWatch::LearnPassed(const NodeProgress& progress, Duration longest,
                            PhaseIntervals* intervals) const {
  if (!step_seen_ || excused_ || called_) return;
  for (const std::string& phase : progress.phases_passed) intervals->Learn(phase, longest);
}

void HangWatch::TakeByes(const NodeProgress& progress, TimePoint now) {
  for (const StillWorker& worker : progress.leaving_workers) {
    last_moved_ = std::max(last_moved_, now - worker.still);
    really_moved_ = std::max(really_moved_, now - worker.still);
  }
}

void HangWatch::Count(const NodeProgress& progress, int by) {
  if (!progress.silent_workers.empty()) silent_nodes_ += by;
  if (!progress.leaving_workers.empty()) leaving_nodes_ += by;
  if (progress.workers == 0) return;
  nodes_ += by;
  for (const std::string& phase : progress.phases) {
    const auto entry = phases_.emplace(phase, 0).first;
    entry->second += by;
    if (entry->second <= 0) phases_.erase(entry);
  }
}

std::vector<std::string> HangWatch::PhasesToLearn() const {
  std::vector<std::string> phases;
  if (!step_seen_) return phases;  // until the first step --hang-startup-timeout is the limit
  for (const auto& [phase, nodes] : phases_) {
    if (!phase.empty() || phases_.size() == 1) phases.push_back(phase);
  }
  return phases;
}

Duration HangWatch::Limit(const HangPolicy& policy, const PhaseIntervals& intervals) const {
  if (!step_seen_) return policy.startup_limit;
  if (policy.limit) return *policy.limit;
  Duration limit = kFloor;
  for (const auto& [phase, nodes] : phases_) {
    const auto longest = intervals.Longest(phase);
    limit = std::max(limit, longest ? kFactor * *longest : policy.startup_limit);
  }
  return limit;
}

}  // namespace ddprun
