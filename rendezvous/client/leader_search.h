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
  std::optional<int> place;  // nullopt: nobody leads
  std::string said;          // then: the answers of all rendezvous, for people
};

// Follows all places at once. Returns when one says that it leads or that it is not one of several,
// or when all calls have ended. Else it waits until `limit`, because a standby may be about to take
// over. `stop` ends the search early. `settle`: once one says that it leads, the others have so
// much time to say so too, and the highest term counts: the first one may not know yet that it has
// been overtaken.
LeaderFound FindLeader(const std::vector<std::shared_ptr<ChannelSource>>& sources,
                       std::chrono::milliseconds limit, const std::stop_token& stop = {},
                       std::chrono::milliseconds settle = {});

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_CLIENT_LEADER_SEARCH_H_
