#include "worker/src/transfer/state_route.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

namespace ddp::internal {

StateRoute MakeStateRoute(const std::vector<RankPlace>& ranks, int source, int rank) {
  std::vector<int> leaders = {source};       // the nodes of the tree, in the tree's order
  std::vector<int> leader_of(ranks.size());  // by rank
  std::map<int, int> leader_of_node;         // for ranks that share memory and cannot read the file
  for (int i = 0; i < static_cast<int>(ranks.size()); ++i) {
    const RankPlace& place = ranks[static_cast<std::size_t>(i)];
    int leader = i;
    if (!place.has_file && place.can_share) {
      leader = leader_of_node.emplace(place.node, i).first->second;
    }
    leader_of[static_cast<std::size_t>(i)] = leader;
    if (leader == i && !place.has_file) leaders.push_back(i);
  }

  StateRoute route;
  route.has_file = ranks[static_cast<std::size_t>(rank)].has_file;
  route.leader = leader_of[static_cast<std::size_t>(rank)];
  for (int i = 0; i < static_cast<int>(ranks.size()); ++i) {
    if (i != rank && leader_of[static_cast<std::size_t>(i)] == rank) route.followers.push_back(i);
  }
  const auto place = std::find(leaders.begin(), leaders.end(), rank);
  if (place == leaders.end()) return route;
  const auto index = static_cast<std::size_t>(place - leaders.begin());
  if (index > 0) route.parent = leaders[(index - 1) / 2];
  for (const std::size_t child : {2 * index + 1, 2 * index + 2}) {
    if (child < leaders.size()) route.children.push_back(leaders[child]);
  }
  return route;
}

}  // namespace ddp::internal
