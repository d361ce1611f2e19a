// Reads the stacks of single ranks from a tree. Pure.
#ifndef DDPRUN_RENDEZVOUS_STACKS_RANK_STACKS_H_
#define DDPRUN_RENDEZVOUS_STACKS_RANK_STACKS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "rendezvous/stacks/rank_set.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun {

// The stack of the rank's main thread, outermost frame first; empty: the tree has none.
std::vector<StackFrame> MainStackOf(const StackTree& tree, std::uint32_t rank);

// The ranks whose main thread has a frame for which `is` returns true.
RankSet RanksWithFrame(const StackTree& tree, const std::function<bool(const StackFrame&)>& is);

// The part of the tree about `ranks`, with their notes. Its left_out() is 0.
StackTree OnlyRanks(const StackTree& tree, const RankSet& ranks);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_STACKS_RANK_STACKS_H_
