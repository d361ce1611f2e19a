// How a state gets from the rank that has it to all ranks: one copy crosses the network to each
// node, and the ranks of a node take it from there.
#ifndef DDPRUN_WORKER_SRC_TRANSFER_STATE_ROUTE_H_
#define DDPRUN_WORKER_SRC_TRANSFER_STATE_ROUTE_H_

#include <vector>

namespace ddp::internal {

struct RankPlace {
  int node = 0;           // the same number for ranks of one node
  bool has_file = false;  // it can read the source's file itself
  bool can_share = true;  // memory with the other ranks of its node
};

// One rank's part in it.
struct StateRoute {
  // Takes the state from its file; else from `leader`'s memory, or, if it is its own leader, from
  // `parent` over the network.
  bool has_file = false;
  int leader = 0;
  int parent = -1;             // of a leader
  std::vector<int> children;   // ranks to send it to over the network
  std::vector<int> followers;  // of a leader: ranks of its node that read its memory
};

// The part of `rank`. `ranks`: of all; the source has the file. The network is a tree of two
// children each, so that no rank sends more than twice what it has, and the last one of 1,000 nodes
// waits for ten chunks only.
StateRoute MakeStateRoute(const std::vector<RankPlace>& ranks, int source, int rank);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_TRANSFER_STATE_ROUTE_H_
