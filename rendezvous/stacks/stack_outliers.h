// Which ranks do something else than most: the part of a culprit that stacks alone can tell. Pure.
#ifndef DDPRUN_RENDEZVOUS_STACKS_STACK_OUTLIERS_H_
#define DDPRUN_RENDEZVOUS_STACKS_STACK_OUTLIERS_H_

#include <cstdint>
#include <vector>

#include "rendezvous/stacks/rank_set.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun {

// Ranks that leave the stack of the majority at one place.
struct StackOutliers {
  RankSet ranks;
  std::uint32_t depth = 0;                // so many frames they share with the majority
  std::vector<StackFrame> majority_next;  // one frame, or none where the majority's stack ends
};

// The main threads of more than half of all ranks go the same way, function by function, up to some
// frame (which line of a function they are at does not count). Those who leave this way, the ones
// that leave it furthest out first: a rank that waits elsewhere than the others leaves early, one
// that merely polls at another moment leaves late. Empty where no majority exists (of two ranks,
// one is none) or all agree. Only ranks in `among` count, all where it is empty.
std::vector<StackOutliers> OutliersOf(const StackTree& tree, const RankSet& among = {});

// The ranks of the first of these, or none.
RankSet UnlikeTheMajority(const StackTree& tree, const RankSet& among = {});

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STACKS_STACK_OUTLIERS_H_
