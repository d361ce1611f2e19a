#include "rendezvous/client/leader_search.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rendezvous/client/follower.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

class LeaderSearch {
 public:
  LeaderSearch(const std::vector<std::shared_ptr<ChannelSource>>& sources,
               std::chrono::milliseconds settle)
      : sources_(sources), settle_(settle), last_(sources.size()), followers_(sources.size()) {
    for (std::size_t place = 0; place < sources_.size(); ++place) Begin(place);
  }

  LeaderFound Run(Clock::time_point deadline, const std::stop_token& stop) {
    const std::stop_callback end(stop, [this] {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      changed_.notify_all();
    });
    for (;;) {
      std::vector<std::size_t> again;
      {
        std::unique_lock lock(mutex_);
        const bool claimed = claimed_at_.has_value();
        const auto until = claimed ? std::min(deadline, *claimed_at_ + settle_) : deadline;
        changed_.wait_until(lock, until, [&] {
          return IsDecided() || !again_.empty() || claimed_at_.has_value() != claimed;
        });
        again.swap(again_);
        if (IsDecided() || Clock::now() >= until) return Result();
      }
      for (const std::size_t place : again) Begin(place);
    }
  }

 private:
  using Event = std::optional<Follower::Event>;

  void Begin(std::size_t place) {
    followers_[place].reset();
    followers_[place] =
        Follow(sources_[place], [this, place](Follower::Event event) { Take(place, event); });
  }

  void Take(std::size_t place, Follower::Event& event) {
    const std::lock_guard lock(mutex_);
    const auto* const ended = std::get_if<Follower::Ended>(&event);
    if (ended != nullptr && ended->again) {
      again_.push_back(place);
    } else {
      last_[place] = std::move(event);
    }
    if (!claimed_at_ && Best(Follower::Role::kLeads)) claimed_at_ = Clock::now();
    changed_.notify_all();
  }

  // This function and all below: with mutex_ held.
  bool IsDecided() const {
    if (stopped_) return true;
    const bool claimed = Best(Follower::Role::kLeads).has_value();
    if (claimed && settle_ == std::chrono::milliseconds(0)) return true;
    return std::all_of(last_.begin(), last_.end(), [claimed](const Event& event) {
      return event && (claimed || std::holds_alternative<Follower::Ended>(*event));
    });
  }

  // The place with this role and the highest term; for kLeads also a rendezvous that is not one of
  // several.
  std::optional<int> Best(Follower::Role role) const {
    std::optional<int> best;
    std::uint64_t highest = 0;
    for (std::size_t place = 0; place < last_.size(); ++place) {
      if (!last_[place]) continue;
      const auto* const said = std::get_if<Follower::Said>(&*last_[place]);
      const bool leads = said != nullptr && said->role == role;
      const bool alone = said == nullptr && role == Follower::Role::kLeads &&
                         std::get<Follower::Ended>(*last_[place]).alone;
      if (!leads && !alone) continue;
      const std::uint64_t revision = leads ? said->term.revision : 0;
      if (best && revision <= highest) continue;
      best = static_cast<int>(place);
      highest = revision;
    }
    return best;
  }

  LeaderFound Result() const {
    if (const auto leader = Best(Follower::Role::kLeads)) return {leader, ""};
    // A leader that is cut off answers calls with the reason why it cannot serve.
    if (const auto leader = Best(Follower::Role::kCutOff)) return {leader, ""};
    std::vector<std::string> said;
    for (std::size_t place = 0; place < last_.size(); ++place) {
      said.push_back(absl::StrCat(sources_[place]->endpoint(), " ", WhatItSaid(last_[place])));
    }
    return {std::nullopt, absl::StrJoin(said, "; ")};
  }

  static std::string WhatItSaid(const Event& event) {
    if (!event) return "does not answer";
    if (const auto* const said = std::get_if<Follower::Said>(&*event)) {
      return said->role == Follower::Role::kHandsOver ? "hands over" : "stands by";
    }
    return absl::StrCat("cannot be asked (", std::get<Follower::Ended>(*event).reason, ")");
  }

  const std::vector<std::shared_ptr<ChannelSource>>& sources_;
  const std::chrono::milliseconds settle_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;                         // guarded by mutex_
  std::optional<Clock::time_point> claimed_at_;  // the first claim to lead; guarded by mutex_
  std::vector<Event> last_;                      // by place; guarded by mutex_
  std::vector<std::size_t> again_;               // places to follow once more; guarded by mutex_
  std::vector<std::unique_ptr<Follower>> followers_;  // they call Take until they are destroyed
};

}  // namespace

LeaderFound FindLeader(const std::vector<std::shared_ptr<ChannelSource>>& sources,
                       std::chrono::milliseconds limit, const std::stop_token& stop,
                       std::chrono::milliseconds settle) {
  return LeaderSearch(sources, settle).Run(Clock::now() + limit, stop);
}

}  // namespace ddprun
