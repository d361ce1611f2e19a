// The route of a state from the rank that has it to all ranks: one copy crosses the network to each
// node, and the ranks of a node take it from there.
#ifndef DDPRUN_WORKER_SRC_TRANSFER_STATE_ROUTE_H_
#define DDPRUN_WORKER_SRC_TRANSFER_STATE_ROUTE_H_

#include <vector>

namespace ddp::internal {

struct RankPlace {
  int node = 0;           // equal for ranks of one node
  bool has_file = false;  // can read the file of the source
  bool can_share = true;  // can share memory with the other ranks of its node
};

// One rank's part of the route.
struct StateRoute {
  // Source of the bytes: the file if has_file; else the memory of `leader`; a leader takes them
  // from `parent` over the network.
  bool has_file = false;
  int leader = 0;
  int parent = -1;             // for a leader
  std::vector<int> children;   // ranks that get the state from this one over the network
  std::vector<int> followers;  // for a leader: ranks of its node that read its memory
};

// The part of `rank`. `ranks`: all ranks; the source has the file. The network is a binary tree: no
// rank sends more than twice the state, and the last of 1,000 nodes waits for only ten chunks.
StateRoute MakeStateRoute(const std::vector<RankPlace>& ranks, int source, int rank);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_TRANSFER_STATE_ROUTE_H_
