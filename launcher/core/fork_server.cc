#include "launcher/core/fork_server.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/core/words.h"
#include "worker/contract/overloaded.h"

namespace ddprun {
namespace {

std::string InSeconds(Duration duration) {
  return Seconds(std::chrono::round<std::chrono::milliseconds>(duration));
}

}  // namespace

const char* ToString(ForkServerState state) {
  switch (state) {
    case ForkServerState::kOff:
      return "Off";
    case ForkServerState::kImporting:
      return "Importing";
    case ForkServerState::kServing:
      return "Serving";
    case ForkServerState::kPaused:
      return "Paused";
    case ForkServerState::kUnfit:
      return "Unfit";
    case ForkServerState::kClosed:
      return "Closed";
  }
  return "?";
}

std::vector<ForkServer::Action> ForkServer::Step(const Event& event, TimePoint now) {
  actions_.clear();
  if (state_ == ForkServerState::kClosed) return {};
  const bool lives = state_ == ForkServerState::kImporting || state_ == ForkServerState::kServing;
  std::visit(Overloaded{
                 [&](const JobStarted&) {
                   if (state_ == ForkServerState::kOff) Start(now);
                 },
                 [&](const ServerReady&) {
                   if (state_ != ForkServerState::kImporting) return;
                   state_ = ForkServerState::kServing;
                   since_ = now;
                   has_served_ = true;
                 },
                 [&](const ServerUnfit& unfit) {
                   if (lives) {
                     GiveUp(absl::StrCat("the imports of --preload cannot be forked: ", unfit.why));
                   }
                 },
                 [&](const ServerEnded& ended) {
                   if (lives) OnEnded(absl::StrCat("has ended ", ended.how), now);
                 },
                 [&](const ForkAsked& asked) {
                   if (state_ == ForkServerState::kServing) asked_.emplace(asked.number, now);
                 },
                 [&](const ForkAnswered& answered) { asked_.erase(answered.number); },
                 [&](const JobEnded&) {
                   if (lives) actions_.emplace_back(EndServer{});
                   state_ = ForkServerState::kClosed;
                 },
                 [&](const Tick&) { OnTick(now); },
             },
             event);
  return std::exchange(actions_, {});
}

std::optional<TimePoint> ForkServer::NextDeadline() const {
  switch (state_) {
    case ForkServerState::kImporting:
      return since_ + options_.import_limit;
    case ForkServerState::kPaused:
      return since_;
    case ForkServerState::kServing:
      break;
    default:
      return std::nullopt;
  }
  std::optional<TimePoint> next;
  for (const auto& [number, asked_at] : asked_) {
    const TimePoint limit = asked_at + options_.fork_limit;
    next = next ? std::min(*next, limit) : limit;
  }
  return next;
}

void ForkServer::Start(TimePoint now) {
  state_ = ForkServerState::kImporting;
  since_ = now;
  actions_.emplace_back(StartServer{});
}

void ForkServer::OnEnded(const std::string& how, TimePoint now) {
  const bool steady = state_ == ForkServerState::kServing && now - since_ >= options_.steady;
  asked_.clear();
  // The first imports failed. They would fail again, and the workers are waiting.
  if (!has_served_) return GiveUp(absl::StrCat("the fork server ", how));
  early_ends_ = steady ? 0 : early_ends_ + 1;
  if (early_ends_ >= options_.give_up_after) {
    return GiveUp(
        absl::StrCat("the fork server ", how, ", as ", early_ends_ - 1, " others before it"));
  }
  const Duration pause =
      early_ends_ == 0 ? Duration(0) : options_.backoff * (1 << (early_ends_ - 1));
  state_ = ForkServerState::kPaused;
  since_ = now + pause;
  actions_.emplace_back(
      Note{absl::StrCat("the fork server ", how, "; no worker ends by that; it is started again",
                        early_ends_ == 0 ? "" : absl::StrCat(" in ", InSeconds(pause)))});
}

void ForkServer::OnTick(TimePoint now) {
  const auto due = NextDeadline();
  if (!due || now < *due) return;
  if (state_ == ForkServerState::kPaused) return Start(now);
  actions_.emplace_back(EndServer{});
  if (state_ == ForkServerState::kImporting) {
    return GiveUp(absl::StrCat("the imports of --preload have not ended within ",
                               InSeconds(options_.import_limit)));
  }
  OnEnded(absl::StrCat("has not forked within ", InSeconds(options_.fork_limit), " and is killed"),
          now);
}

void ForkServer::GiveUp(const std::string& why) {
  state_ = ForkServerState::kUnfit;
  asked_.clear();
  actions_.emplace_back(
      Note{absl::StrCat(why, "; workers are started plainly, and each imports for itself")});
}

}  // namespace ddprun
