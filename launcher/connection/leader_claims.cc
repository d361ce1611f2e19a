#include "launcher/connection/leader_claims.h"

namespace ddprun {

void LeaderClaims::OnSaid(int place, const Follower::Said& said) {
  said_[place] = said;
  Choose();
}

void LeaderClaims::OnEnded(int place) {
  said_[place].reset();
  Choose();
}

bool LeaderClaims::Claims(int place) const {
  const auto& said = said_[place];
  if (!said || said->term.none()) return false;
  if (said->role != Follower::Role::kLeads && said->role != Follower::Role::kCutOff) return false;
  return said->term.cluster != highest_.cluster || said->term.revision >= highest_.revision;
}

bool LeaderClaims::IsBetter(int place, int other) const {
  const Follower::Said& here = *said_[place];
  const Follower::Said& there = *said_[other];
  if (here.term.cluster == there.term.cluster) return here.term.revision > there.term.revision;
  return here.role == Follower::Role::kLeads && there.role == Follower::Role::kCutOff;
}

void LeaderClaims::Choose() {
  if (leader_ && !Claims(*leader_)) leader_.reset();
  for (int place = 0; place < static_cast<int>(said_.size()); ++place) {
    if (Claims(place) && (!leader_ || IsBetter(place, *leader_))) leader_ = place;
  }
  if (leader_) highest_ = said_[*leader_]->term;
}

}  // namespace ddprun
