// Which rank the others wait for, judged by the stacks of main threads. For programs that do not
// report their collectives, such as unmodified Python. Pure.
#ifndef DDPRUN_RENDEZVOUS_HANGS_STACK_CULPRIT_H_
#define DDPRUN_RENDEZVOUS_HANGS_STACK_CULPRIT_H_

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/hangs/hang_verdict.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun {

// True for a frame of a collective or of torch's store: code of c10d, Gloo, NCCL or
// torch.distributed.
bool IsOfACollective(const StackFrame& frame);

// True if the main thread is in a collective, also in one that the worker does not report.
bool IsInACollective(const StillRank& rank, const StackTree& tree);

// If some ranks are in a collective and some are not: names a rank that is in none. If several
// ranks are in none: the lowest rank whose stack differs from most of their stacks, or else the
// lowest of all. If all ranks are in a collective, or none is: names a rank whose stack differs
// from the stack of the majority (more than half of all ranks). Then only frames outside of the
// collective are compared, and a rank with a higher step than another rank is not named. nullopt:
// there is no such rank, or `tree` has no stack of `ranks`.
std::optional<HangVerdict> CulpritByStacks(const std::vector<StillRank>& ranks,
                                           const StackTree& tree);

// The collective in which all ranks are, according to their stacks:
// "c10d::Reducer::finalize_backward". nullopt: at least one rank is in no collective, or no stack
// is known.
std::optional<std::string> CollectiveOfAll(const std::vector<StillRank>& ranks,
                                           const StackTree& tree);

// For ranks without a majority: "rank 0 on n1 (pid 41) in save t.py:7, rank 1 on n2 (pid 42) in
// load data.py:7". nullopt: all are in one function or in one collective, or no stack is known.
std::optional<std::string> DifferentPlaces(const std::vector<StillRank>& ranks,
                                           const StackTree& tree);

// Where the program is: the innermost frame of the rank's main thread outside of kernel, C library
// and interpreter: "Dataset::Get dataset.cc:88". "": no stack is known.
std::string WhereInCode(const StackTree& tree, Rank rank);

// The frames of the rank's main thread, innermost first, at most kMaxCauseFrames:
// RootCause::frames. Leaves out frames of kernel, C library and interpreter, except the innermost
// one.
std::vector<StackFrame> TopFrames(const StackTree& tree, Rank rank);

// "rank 5: Trainer::Step trainer.cc:140 → Dataset::Get dataset.cc:88 → read(/data/shard-0017) in
// disk wait (D) since 41.7 s"; "": no stack and no system call is known.
std::string DescribeStack(const StillRank& rank, const StackTree& tree);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_HANGS_STACK_CULPRIT_H_
