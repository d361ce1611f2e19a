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
  std::optional<int> place;  // nullopt: no rendezvous leads
  std::string said;          // then: the answers of all rendezvous, for people
};

// Follows all places at once. Returns when a rendezvous says that it leads or that it is not one of
// several, or when all calls have ended. Otherwise it waits until `limit`, because a standby may be
// about to take over. `stop` ends the search early. `settle`: once a rendezvous says that it leads,
// the others have this much time to say the same. The highest term counts, because the first one
// may not know yet that another has taken over.
LeaderFound FindLeader(const std::vector<std::shared_ptr<ChannelSource>>& sources,
                       std::chrono::milliseconds limit, const std::stop_token& stop = {},
                       std::chrono::milliseconds settle = {});

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_LEADER_SEARCH_H_
