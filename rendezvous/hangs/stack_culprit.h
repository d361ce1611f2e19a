// Which rank the others wait for, by where their main threads are: for programs that do not tell of
// their collectives, as unmodified Python. Pure.
#ifndef DDPRUN_RENDEZVOUS_HANGS_STACK_CULPRIT_H_
#define DDPRUN_RENDEZVOUS_HANGS_STACK_CULPRIT_H_

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/hangs/hang_verdict.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun {

// The frame belongs to a collective operation or its store: of c10d, Gloo or NCCL, or of
// torch.distributed.
bool IsOfACollective(const StackFrame& frame);

// Where some ranks are in a collective and some are not: a rank that is in none. If several are in
// none, one whose stack differs from the others'.
// Where all ranks are in one, or no rank is: a rank whose stack differs from the stacks of more
// than half of all ranks, if they differ before they reach the collective. A rank whose step is
// ahead of the others' is not named.
// nullopt: there is no such rank, or `tree` has none of `ranks`.
std::optional<HangVerdict> CulpritByStacks(const std::vector<StillRank>& ranks,
                                           const StackTree& tree);

// What all ranks wait in, where the stacks of all say so: "c10d::Reducer::finalize_backward".
std::optional<std::string> CollectiveOfAll(const std::vector<StillRank>& ranks,
                                           const StackTree& tree);

// The innermost frame of the main thread of a rank that says what the program does: "Dataset::Get
// dataset.cc:88"; "" where nothing is known of it.
std::string WhereInCode(const StackTree& tree, Rank rank);

// The innermost frames of the main thread of a rank, innermost first: RootCause::frames. Those of
// the interpreter and the C library are left out, but for the innermost one.
std::vector<StackFrame> TopFrames(const StackTree& tree, Rank rank);

// "rank 5: Trainer::Step trainer.cc:140 → Dataset::Get dataset.cc:88 → read(/data/shard-0017) in
// disk wait (D) since 41.7 s"; "" where nothing is known of it.
std::string DescribeStack(const StillRank& rank, const StackTree& tree);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_HANGS_STACK_CULPRIT_H_
