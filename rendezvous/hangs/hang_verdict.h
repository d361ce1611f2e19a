// HangVerdict: which rank keeps a job that does not move from going on, and the sentences that say
// so. Pure functions of what the nodes told.
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
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun {

// A worker that is still, and where it is.
struct StillRank {
  Rank rank;
  std::string host;
  NodeRank node_rank;
  StillWorker worker;
  bool silent = false;  // it has told nothing since its start

  // As stacks know it.
  std::uint32_t number() const { return static_cast<std::uint32_t>(rank.value); }
};

struct HangVerdict {
  // The rank that the others wait for; where all wait in one collective, the lowest of them. Not
  // set: no rank is known.
  std::optional<StillRank> culprit;
  std::string
      why;  // a sentence about it: "rank 5 on n2 (pid 4242) has not entered all_reduce 9632"
  // The culprit used the CPU or did I/O, outside every collective: it may be at work.
  bool busy = false;
  // False: the culprit is one of several that are alike, and nothing speaks against its node.
  bool blames = true;
};

// Rules, in this order: a rank that is stopped or in disk wait; a rank that has not entered the
// collective in which the others wait; a rank that entered another operation or size at the same
// sequence number; where no rank tells of a collective, a rank that is silent while others are in
// ddp::init() (silent_culprit.h); a rank whose stack is unlike the others' (stack_culprit.h); a
// rank that is silent; a rank whose phase or step is behind; else all wait for the network.
// `silent_tell`: silent ranks are expected to tell. Else they are of programs that never do: being
// silent says nothing against them, but their state and their stacks do.
HangVerdict FindCulprit(const std::vector<StillRank>& ranks, const StackTree& stacks,
                        bool silent_tell = true);

// Of ranks that have all said BYE.
HangVerdict WhoDoesNotEnd(const std::vector<StillRank>& ranks);

// "no rank has moved for 42 s (limit 30 s) at step 1204"
std::string DescribeStandstill(Duration still, Duration limit, std::optional<std::int64_t> step,
                               bool step_seen);

// "rank 5 on n2 (pid 4242)"
std::string NameOf(const StillRank& rank);
// " (and 2 other ranks)" where more than one rank, of `all`, is like the one that is named.
std::string AndOthers(std::size_t all);
// "41.7 s"
std::string ForHowLong(Duration still);
// " since 41.7 s"; empty for a silent rank: nobody knows when it moved last.
std::string SinceWhen(const StillRank& rank);

// What the root cause of the generation is where it is ended for this.
WorkerFailure FailureOf(const StillRank& culprit, Generation generation);

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_HANGS_HANG_VERDICT_H_
