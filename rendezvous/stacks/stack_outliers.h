// Which ranks do something else than the majority. This is what stacks alone show about the rank
// that the others wait for. Pure.
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

// The majority's path: from the outermost frame on, the functions in which more than half of the
// main threads agree. Lines within a function are not compared. Returns the ranks that leave this
// path. Ranks that leave it nearest to the outermost frame come first. A rank that waits elsewhere
// leaves the path early; a rank that only polls at another moment leaves it late. Empty: there is
// no majority (one of two ranks is no majority), or all ranks agree. `among`: the ranks to compare;
// empty: all.
std::vector<StackOutliers> OutliersOf(const StackTree& tree, const RankSet& among = {});

// The ranks of the first entry of OutliersOf(); empty: none.
RankSet UnlikeTheMajority(const StackTree& tree, const RankSet& among = {});

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STACKS_STACK_OUTLIERS_H_
