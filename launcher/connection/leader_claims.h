// LeaderClaims: which of several rendezvous leads, by what each says of itself. Pure.
//
// A claim lasts as long as the call over which it was made. In one etcd the highest term wins, and
// one that is lower than the highest seen is none: its rendezvous was overtaken and does not know
// it yet. Terms of two etcds cannot be compared (one was restored from a snapshot): then the leader
// stays until its claim is over, or it is cut off from its etcd and another one is not.
#ifndef DDPRUN_LAUNCHER_CONNECTION_LEADER_CLAIMS_H_
#define DDPRUN_LAUNCHER_CONNECTION_LEADER_CLAIMS_H_

#include <optional>
#include <vector>

#include "rendezvous/client/follower.h"
#include "rendezvous/core/term.h"

namespace ddprun {

class LeaderClaims {
 public:
  // Of the rendezvous at places 0 to places − 1.
  explicit LeaderClaims(int places) : said_(places) {}

  void OnSaid(int place, const Follower::Said& said);
  // Nothing is heard from there any more.
  void OnEnded(int place);

  // Its place; nullopt: nobody leads, as far as known.
  const std::optional<int>& leader() const { return leader_; }
  // Of the leader, or of the last one.
  const Term& term() const { return highest_; }

 private:
  bool Claims(int place) const;
  // Whether the claim at `place` is to be followed rather than that at `other`.
  bool IsBetter(int place, int other) const;
  void Choose();

  std::vector<std::optional<Follower::Said>> said_;  // by place; nullopt: nothing
  std::optional<int> leader_;
  Term highest_;  // of those followed so far, in the etcd of the last one
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_LEADER_CLAIMS_H_
