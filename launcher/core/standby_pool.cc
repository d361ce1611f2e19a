#include "launcher/core/standby_pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/words.h"
#include "worker/contract/overloaded.h"

namespace ddprun {

using State = StandbyPoolState;

const char* ToString(StandbyPoolState state) {
  switch (state) {
    case State::kIdle:
      return "Idle";
    case State::kSettling:
      return "Settling";
    case State::kFilling:
      return "Filling";
    case State::kGivenUp:
      return "GivenUp";
    case State::kClosed:
      return "Closed";
  }
  return "?";
}

std::vector<StandbyPool::Action> StandbyPool::Step(const Event& event, TimePoint now) {
  actions_.clear();
  if (state_ == State::kClosed) return {};
  std::visit(Overloaded{
                 [&](const GenerationStarted&) { OnStarted(now); },
                 [&](const WorkerCanStandBy&) { able_ = true; },
                 [&](const WorkerStepped& stepped) {
                   stepped_.insert(stepped.local_rank);
                   Settle();
                 },
                 [&](const GenerationEnded&) {
                   if (state_ != State::kGivenUp) state_ = State::kIdle;
                   // A loading standby would take CPU time from the workers that start now. A
                   // pending fork might be killed with the generation's other processes. But a
                   // standby that loads for a coming start continues.
                   if (options_.forks || !start_limit_) EndThose(false);
                 },
                 [&](const StandbyWaiting& waiting) { OnWaiting(waiting.id, now); },
                 [&](const StandbyEnded& ended) { OnEnded(ended, now); },
                 [&](const ForksChanged& changed) { OnForksChanged(changed.forks); },
                 [&](const StartComing& coming) {
                   start_limit_ = now + coming.limit;
                   able_ = able_ || coming.program_waits;
                 },
                 [&](const JobEnded&) {
                   state_ = State::kClosed;
                   start_limit_.reset();
                   EndThose(true);
                 },
                 [&](const Tick&) { OnTick(now); },
             },
             event);
  Fill(now);
  LookWhetherStartCanBegin(now);
  return std::exchange(actions_, {});
}

std::optional<TimePoint> StandbyPool::NextDeadline() const {
  std::optional<TimePoint> next;
  const auto also = [&](TimePoint at) { next = next ? std::min(*next, at) : at; };
  if (start_limit_) also(*start_limit_);
  if (state_ == State::kSettling) also(settled_at_);
  if (const Standby* loading = Loading()) {
    also(loading->started_at + options_.start_limit);
  } else if (state_ != State::kGivenUp && CanMake() && Wanted()) {
    also(not_before_);
  }
  return next;
}

std::optional<StandbyPool::Id> StandbyPool::Adopt(LocalRank local_rank, TimePoint now) {
  if (state_ == State::kClosed) return std::nullopt;
  const Id id = next_id_++;
  standbys_[id] = Standby{local_rank, now, now, /*was_worker=*/true};
  return id;
}

std::optional<StandbyPool::Id> StandbyPool::Take(LocalRank local_rank) {
  auto chosen = standbys_.end();
  for (auto it = standbys_.begin(); it != standbys_.end(); ++it) {
    const Standby& standby = it->second;
    if (!standby.waiting_since || standby.local_rank != local_rank) continue;
    if (chosen == standbys_.end() || standby.was_worker) chosen = it;
  }
  if (chosen == standbys_.end()) return std::nullopt;
  const Id taken = chosen->first;
  standbys_.erase(chosen);
  return taken;
}

void StandbyPool::OnStarted(TimePoint now) {
  if (options_.wanted == 0) return;
  ++generations_;
  stepped_.clear();
  if (state_ == State::kGivenUp) return;
  state_ = State::kSettling;
  settled_at_ = now + options_.settle;
  if (generations_ == 1 || able_ || options_.forks || said_unable_) return;
  said_unable_ = true;
  actions_.emplace_back(
      Note{"there is no warm standby: no worker has come to ddp::init(), and without this call a "
           "standby would run the training itself; workers are started cold"});
}

void StandbyPool::OnWaiting(Id id, TimePoint now) {
  const auto found = standbys_.find(id);
  if (found != standbys_.end() && !found->second.waiting_since) found->second.waiting_since = now;
}

void StandbyPool::OnEnded(const StandbyEnded& ended, TimePoint now) {
  const auto found = standbys_.find(ended.id);
  if (found == standbys_.end()) return;
  const auto waiting_since = found->second.waiting_since;
  const bool was_worker = found->second.was_worker;
  standbys_.erase(found);
  if (was_worker) return;
  if (waiting_since && now - *waiting_since >= options_.steady) {
    early_ends_ = 0;
    return;
  }
  not_before_ = now + options_.backoff * (1 << early_ends_);
  if (++early_ends_ < options_.give_up_after) return;
  GiveUp(
      absl::StrCat(early_ends_, " standbys in a row have ended early, the last one ", ended.how));
}

void StandbyPool::OnForksChanged(Forks forks) {
  forks_ = forks;
  if (forks_ == Forks::kNow) return;
  std::erase_if(standbys_, [](const auto& entry) { return !entry.second.waiting_since; });
  if (forks_ == Forks::kNever) state_ = State::kGivenUp;  // the fork server has logged the reason
}

void StandbyPool::OnTick(TimePoint now) {
  if (state_ == State::kSettling && now >= settled_at_) state_ = State::kFilling;
  const Standby* const loading = Loading();
  if (loading == nullptr || now < loading->started_at + options_.start_limit) return;
  EndThose(false);
  GiveUp(
      absl::StrCat("a standby has not come to ddp::init() within ",
                   Seconds(std::chrono::round<std::chrono::milliseconds>(options_.start_limit))));
}

void StandbyPool::Settle() {
  const bool all = stepped_.size() >= static_cast<std::size_t>(options_.workers);
  if (state_ == State::kSettling && all) state_ = State::kFilling;
}

// Starts all standbys at once if a start is coming, or if they are forked. Otherwise one at a time:
// loading libraries keeps a core busy.
void StandbyPool::Fill(TimePoint now) {
  if (state_ == State::kGivenUp || now < not_before_ || !CanMake()) return;
  while (start_limit_ || Loading() == nullptr) {
    const auto local_rank = Wanted();
    if (!local_rank) return;
    const Id id = next_id_++;
    standbys_[id] = Standby{*local_rank, now, std::nullopt, /*was_worker=*/false};
    actions_.emplace_back(StartStandby{id, *local_rank});
  }
}

// Does not wait after a failed fork: the worker is started directly.
void StandbyPool::LookWhetherStartCanBegin(TimePoint now) {
  if (!start_limit_) return;
  std::set<LocalRank> there;
  for (const auto& [id, standby] : standbys_) {
    if (standby.waiting_since) there.insert(standby.local_rank);
  }
  const bool all = there.size() == static_cast<std::size_t>(options_.workers);
  const bool cannot = state_ == State::kGivenUp || now < not_before_ || (!options_.forks && !able_);
  if (!all && !cannot && now < *start_limit_) return;
  start_limit_.reset();
  if (!options_.forks) EndThose(false);  // the workers start now, and need the CPU time
  actions_.emplace_back(StartCanBegin{});
}

void StandbyPool::GiveUp(const std::string& why) {
  state_ = State::kGivenUp;
  actions_.emplace_back(Note{absl::StrCat("no more warm standbys are started: ", why,
                                          "; workers are started cold from now on")});
}

void StandbyPool::EndThose(bool that_wait_too) {
  for (auto it = standbys_.begin(); it != standbys_.end();) {
    if (it->second.waiting_since && !that_wait_too) {
      ++it;
      continue;
    }
    actions_.emplace_back(EndStandby{it->first});
    it = standbys_.erase(it);
  }
}

std::optional<LocalRank> StandbyPool::Wanted() const {
  const int starting = start_limit_ ? 1 : 0;
  for (int rank = 0; rank < options_.workers; ++rank) {
    const int kept =
        options_.wanted / options_.workers + (rank < options_.wanted % options_.workers ? 1 : 0);
    const int target = std::max(starting, state_ == State::kFilling ? kept : 0);
    const auto there = std::count_if(standbys_.begin(), standbys_.end(), [&](const auto& entry) {
      return entry.second.local_rank.value == rank && !entry.second.was_worker;
    });
    if (there < target) return LocalRank{rank};
  }
  return std::nullopt;
}

bool StandbyPool::CanMake() const { return options_.forks ? forks_ == Forks::kNow : able_; }

const StandbyPool::Standby* StandbyPool::Loading() const {
  if (options_.forks) return nullptr;
  for (const auto& [id, standby] : standbys_) {
    if (!standby.waiting_since) return &standby;
  }
  return nullptr;
}

}  // namespace ddprun
