// Verdicts about silent ranks: ranks that have reported nothing since their start, while others
// have. Pure.
#ifndef DDPRUN_RENDEZVOUS_HANGS_SILENT_CULPRIT_H_
#define DDPRUN_RENDEZVOUS_HANGS_SILENT_CULPRIT_H_

#include <optional>
#include <vector>

#include "rendezvous/hangs/hang_verdict.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun {

// For a job with some ranks in ddp::init() and some silent ones: names a silent rank. If several
// are silent, names one whose stack differs from the others' stacks, else the lowest. "62 of 64
// ranks are in init(); missing 17-18 on n5: rank 17 (pid 4242) started 40.0 s ago, now in
// Dataset::Open dataset.cc:88"
std::optional<HangVerdict> MissingInInit(const std::vector<StillRank>& ranks,
                                         const StackTree& stacks);

// Names a silent rank although no rank is in ddp::init(). A program whose ranks do not all report
// looks like this too, so ask CulpritByStacks() first.
std::optional<HangVerdict> ReportedNothing(const std::vector<StillRank>& ranks,
                                           const StackTree& stacks);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_HANGS_SILENT_CULPRIT_H_
