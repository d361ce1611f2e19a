// Finds out which of several rendezvous leads, for a caller that may block. Internal to this
// folder.
#ifndef DDPRUN_RENDEZVOUS_CLIENT_LEADER_SEARCH_H_
#define DDPRUN_RENDEZVOUS_CLIENT_LEADER_SEARCH_H_

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "rendezvous/client/channel_source.h"

namespace ddprun {

struct LeaderFound {
  // The leader's index in `sources`. A leader that is cut off from etcd (Follower::Role::kCutOff)
  // counts if nobody else leads. nullopt: nobody leads.
  std::optional<int> place;
  std::string said;  // if nobody leads: the answers of all rendezvous, for people
};

// Follows all `sources` at once. Returns when one says that it leads or that it is not one of
// several, or when all calls have ended. Else it waits until `limit`, because a standby may be
// about to take over. `stop` ends the search early. `settle`: once one rendezvous says that it
// leads, the others have this long to answer. Then the highest term counts, because the first one
// may not know yet that another has taken over.
LeaderFound FindLeader(const std::vector<std::shared_ptr<ChannelSource>>& sources,
                       std::chrono::milliseconds limit, const std::stop_token& stop = {},
                       std::chrono::milliseconds settle = {});

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_LEADER_SEARCH_H_
