// HangVerdict: which rank a hanging job waits for, and the sentences that say so. Pure functions of
// the nodes' reports.
#ifndef DDPRUN_RENDEZVOUS_HANGS_HANG_VERDICT_H_
#define DDPRUN_RENDEZVOUS_HANGS_HANG_VERDICT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/core/progress.h"
#include "rendezvous/core/root_cause.h"
#include "rendezvous/core/types.h"
#include "rendezvous/stacks/rank_set.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun {

// A worker that does not move, and where it runs.
struct StillRank {
  Rank rank;
  std::string host;
  NodeRank node_rank;
  StillWorker worker;
  bool silent = false;  // it has reported nothing since its start

  // The rank as RankSet and StackTree number it.
  std::uint32_t number() const { return static_cast<std::uint32_t>(rank.value); }
};

struct HangVerdict {
  // The rank that the others wait for. If all ranks wait in one collective or look alike: one of
  // them, as an example. Not set: no rank is known.
  std::optional<StillRank> culprit;
  std::string why;  // "rank 5 on n2 (pid 4242) has not entered all_reduce 9632"
  // The culprit may be at work: it has used the CPU or done I/O within kBusyWindow, and reports no
  // collective. If the culprit is only an example: any of the ranks may be at work.
  bool busy = false;
  // False: the culprit's node is not to blame. For example, all ranks are alike, two calls do not
  // match, or ranks on other hosts are in the same condition. For the rank with the lowest step,
  // other ranks at that step are not considered.
  bool blames = true;
};

// The first rule that names a rank decides:
//   1. a rank that a signal stopped, or that is in disk wait (D)
//   2. if a rank waits in a collective, one of these:
//      a. a rank that has not entered that collective
//      b. a rank whose call with the same number has another operation or size. Rule b precedes a
//         if the rank of rule a waits in an earlier collective, or in a collective that its program
//         does not report (its stack shows this)
//      c. no single rank, but the network or the library
//      None of these if the rank of rule a is in an unreported collective and all calls match
//   3. a silent rank, while others are in ddp::init() (silent_culprit.h); only with `silent_tell`
//   4. a rank whose stack differs from the others' (stack_culprit.h). If `silent_tell` is false,
//      compares first only the ranks that report, then all ranks
//   5. a silent rank; only with `silent_tell`
//   6. a rank with a lower step than another, or in the phase that the fewest ranks are in
//   7. none: the ranks are in different places, or all look alike
// A silent rank has reported nothing since its start. `silent_tell`: silent ranks are expected to
// report. If false, their programs never report: silence proves nothing, but process states and
// stacks count.
HangVerdict FindCulprit(const std::vector<StillRank>& ranks, const StackTree& stacks,
                        bool silent_tell = true);

// The verdict if all of `ranks` have announced their end (BYE) but still run.
HangVerdict WhoDoesNotEnd(const std::vector<StillRank>& ranks);

// "no rank has moved for 42.0 s (limit 30 s) at step 1204"
std::string DescribeStandstill(Duration still, Duration limit, std::optional<std::int64_t> step,
                               bool step_seen);

// "rank 5 on n2 (pid 4242)"
std::string NameOf(const StillRank& rank);
// `all`: the number of ranks that share the named rank's condition. 3: " (and 2 other ranks)"; 1:
// "".
std::string AndOthers(std::size_t all);
// True if the ranks of `some` are all on one host. Then the host may be to blame.
bool OnOneHost(const std::vector<StillRank>& ranks, const RankSet& some);
// "41.7 s"
std::string ForHowLong(Duration still);
// " since 41.7 s"; "" for a silent rank, because the time of its last move is not known.
std::string SinceWhen(const StillRank& rank);

// The worker's part of the root cause, if this hang ends the generation.
WorkerFailure FailureOf(const StillRank& culprit, Generation generation);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_HANGS_HANG_VERDICT_H_
