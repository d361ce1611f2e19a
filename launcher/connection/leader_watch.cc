#include "launcher/connection/leader_watch.h"

#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "launcher/log.h"

namespace ddprun {
namespace {

// A rendezvous that is not one of several can become one only by a new start.
constexpr std::chrono::seconds kWhileAlone{10};

}  // namespace

LeaderWatch::LeaderWatch(EventLoop* loop, int places, std::uint64_t seed,
                         MakeFollower make_follower, OnLeader on_leader, OnStandby on_standby)
    : loop_(loop),
      make_follower_(std::move(make_follower)),
      on_leader_(std::move(on_leader)),
      on_standby_(std::move(on_standby)),
      claims_(places) {
  for (int place = 0; place < places; ++place) {
    ReconnectTiming::Options timing;
    timing.seed = seed + static_cast<std::uint64_t>(place);
    places_.emplace_back(timing);
  }
  for (int place = 0; place < places; ++place) Begin(place);
}

LeaderWatch::~LeaderWatch() {
  *alive_ = false;
  for (Place& place : places_) loop_->CancelTimer(place.retry);
}

void LeaderWatch::Begin(int place) {
  const int call = ++places_[place].call;
  places_[place].follower = make_follower_(
      place, [this, loop = loop_, alive = alive_, place, call](const Follower::Event& event) {
        loop->Post([this, alive, place, call, event] {
          if (*alive) OnEvent(place, call, event);
        });
      });
}

void LeaderWatch::OnEvent(int place, int call, const Follower::Event& event) {
  if (call != places_[place].call) return;
  const std::optional<int> leader = claims_.leader();
  const Term term = claims_.term();
  if (const auto* said = std::get_if<Follower::Said>(&event)) {
    places_[place].timing.OnHeard();
    places_[place].why_ended.clear();
    claims_.OnSaid(place, *said);
  } else {
    claims_.OnEnded(place);
    OnEnded(place, std::get<Follower::Ended>(event));
  }
  if (claims_.leader() != leader || claims_.term() != term) on_leader_(claims_.leader());
  const auto* const said = std::get_if<Follower::Said>(&event);
  if (said != nullptr && said->role == Follower::Role::kStandsBy && on_standby_) on_standby_(place);
}

void LeaderWatch::OnEnded(int place, const Follower::Ended& ended) {
  Place& here = places_[place];
  if (ended.reason != std::exchange(here.why_ended, ended.reason)) {
    LogDebug(absl::StrCat("rendezvous ", place + 1, " cannot be followed: ", ended.reason));
  }
  here.follower.reset();
  Duration pause = here.timing.OnLost(/*refused=*/false);
  if (ended.alone) pause = kWhileAlone;
  if (ended.again) pause = Duration{};
  here.retry = loop_->AddTimer(EventLoop::Clock::now() + pause, [this, place] { Begin(place); });
}

}  // namespace ddprun
