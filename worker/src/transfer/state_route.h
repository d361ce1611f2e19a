// The route of a state from the rank that has it, the source, to all ranks. Ranks of the source's
// node that can open the source's file read it. One copy crosses the network to each other node.
// There one rank, the leader, gets the copy, and the other ranks of that node read the leader's
// memory. Ranks that cannot share memory each get a copy.
#ifndef DDPRUN_WORKER_SRC_TRANSFER_STATE_ROUTE_H_
#define DDPRUN_WORKER_SRC_TRANSFER_STATE_ROUTE_H_

#include <vector>

namespace ddp::internal {

struct RankPlace {
  int node = 0;           // the same for ranks of one node
  bool has_file = false;  // has opened the source's file
  bool can_share = true;  // can share memory with the other ranks of its node
};

// One rank's part of the route.
struct StateRoute {
  // Where this rank gets the bytes: from the file if has_file; otherwise from the memory of
  // `leader`. A leader gets them from `parent` over the network.
  bool has_file = false;
  int leader = 0;
  int parent = -1;             // only for a leader
  std::vector<int> children;   // ranks that get the state from this one over the network
  std::vector<int> followers;  // only for a leader: the ranks of its node that read its memory
};

// Returns the part of `rank`. `ranks` are all ranks. The source has the file. The network is a
// binary tree: no rank sends more than twice the state, and the last of 1,000 nodes waits for only
// ten chunks.
StateRoute MakeStateRoute(const std::vector<RankPlace>& ranks, int source, int rank);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_TRANSFER_STATE_ROUTE_H_
