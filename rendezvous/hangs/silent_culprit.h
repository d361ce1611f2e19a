// Ranks that have told nothing since their start while others have: they are missing where the
// others wait. Pure.
#ifndef DDPRUN_RENDEZVOUS_HANGS_SILENT_CULPRIT_H_
#define DDPRUN_RENDEZVOUS_HANGS_SILENT_CULPRIT_H_

#include <optional>
#include <vector>

#include "rendezvous/hangs/hang_verdict.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun {

// Where some ranks are in ddp::init() and some are silent: a silent rank. Of several it is the one
// whose stack differs from the others', else the lowest.
// "62 of 64 ranks are in init(); missing 17-18 on n5: rank 17 (pid 4242) started 40.0 s ago, now in
// Dataset::Open dataset.cc:88"
std::optional<HangVerdict> MissingInInit(const std::vector<StillRank>& ranks,
                                         const StackTree& stacks);

// The same where the others have told something else. A program in which not every rank tells looks
// like this too, so stacks should be asked first (stack_culprit.h).
std::optional<HangVerdict> ReportedNothing(const std::vector<StillRank>& ranks,
                                           const StackTree& stacks);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_HANGS_SILENT_CULPRIT_H_
