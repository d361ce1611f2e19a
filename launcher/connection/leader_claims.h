// LeaderClaims: which of several rendezvous leads, judged by each one's own claim. Pure.
//
// A claim is valid until the call over which it was made ends. In one etcd cluster the highest term
// wins. A claim with a lower term than the highest seen does not count: its rendezvous was replaced
// and does not know it yet. Terms of two clusters cannot be compared (one cluster was restored from
// a snapshot). Then the leader stays until its claim ends, or until it is cut off from its etcd
// while another claimant is not.
#ifndef DDPRUN_LAUNCHER_CONNECTION_LEADER_CLAIMS_H_
#define DDPRUN_LAUNCHER_CONNECTION_LEADER_CLAIMS_H_

#include <optional>
#include <vector>

#include "rendezvous/client/follower.h"
#include "rendezvous/core/term.h"

namespace ddprun {

class LeaderClaims {
 public:
  // For the rendezvous at places 0 to places − 1.
  explicit LeaderClaims(int places) : said_(places) {}

  void OnSaid(int place, const Follower::Said& said);
  // The call to this place has ended: its claim is over.
  void OnEnded(int place);

  // The leader's place; nullopt: nobody leads, as far as known.
  const std::optional<int>& leader() const { return leader_; }
  // The term of the leader, or of the last leader.
  const Term& term() const { return highest_; }

 private:
  bool Claims(int place) const;
  // Whether the claim at `place` wins over the claim at `other`.
  bool IsBetter(int place, int other) const;
  void Choose();

  std::vector<std::optional<Follower::Said>> said_;  // by place; nullopt: nothing
  std::optional<int> leader_;
  Term highest_;  // of the leader, or of the last leader
};

}  // namespace ddprun

#endif  // DDPRUN_LAUNCHER_CONNECTION_LEADER_CLAIMS_H_
