// Which ranks do something else than the majority: what stacks alone can tell about a culprit.
// Pure.
#ifndef DDPRUN_RENDEZVOUS_STACKS_STACK_OUTLIERS_H_
#define DDPRUN_RENDEZVOUS_STACKS_STACK_OUTLIERS_H_

#include <cstdint>
#include <vector>

#include "rendezvous/stacks/rank_set.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun {

// Ranks whose stack leaves the majority's stack at the same frame.
struct StackOutliers {
  RankSet ranks;
  std::uint32_t depth = 0;  // number of outer frames shared with the majority
  // The next frame of the majority; empty: its stack ends here.
  std::vector<StackFrame> majority_next;
};

// More than half of all main threads share a path of functions, from the outermost frame on; lines
// within a function do not count. Returns the ranks that leave this path, those that leave it
// furthest out first: a rank that waits elsewhere leaves it early, a rank that only polls at
// another moment leaves it late. Empty: no majority exists (one of two ranks is none), or all
// agree. `among`: the ranks that count; empty: all.
std::vector<StackOutliers> OutliersOf(const StackTree& tree, const RankSet& among = {});

// The ranks of the first entry of OutliersOf(); empty: none.
RankSet UnlikeTheMajority(const StackTree& tree, const RankSet& among = {});

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STACKS_STACK_OUTLIERS_H_
