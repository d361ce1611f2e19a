// Who keeps the other ranks waiting, by how long each rank computes on its own in each step. Pure.
//
// A rank is slow in a window of steps if its quick steps, the first quartile, take 1.25 times as
// long as the quick ones of the others, and longer than a step of the others typically takes, the
// median; and a millisecond longer at least. What comes and goes, as a checkpoint, an evaluation,
// or other programs on the machine, delays some steps of a window and leaves the quick ones quick;
// what slows a rank down for good (a hot GPU, a slow disk under its data, a neighbour on its cores)
// delays all of them. And where the others' steps take as long typically, nobody waits for this
// rank.
//
// Three slow windows in a row make it a straggler, and three in a row that are not slow end that;
// then the limit is 1.15, so that one that is just at it does not come and go.
#ifndef DDPRUN_WORKER_SRC_PEERS_STRAGGLER_WATCH_H_
#define DDPRUN_WORKER_SRC_PEERS_STRAGGLER_WATCH_H_

#include <ddp/data_parallel_options.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace ddp::internal {

// Of the steps of a window.
struct RankTimes {
  std::chrono::nanoseconds first_quartile{0};
  std::chrono::nanoseconds median{0};  // 0: nothing was measured

  bool IsKnown() const { return median.count() > 0; }
};

RankTimes Summarize(std::vector<std::chrono::nanoseconds> times);

// One owner. Equal input gives equal output: every rank comes to the same result.
class StragglerWatch {
 public:
  struct Verdict {
    std::vector<Straggler> stragglers;  // slow in this window too; the longest time first
    std::vector<int> ended;             // that are none since this window
  };

  // `ranks`: of one window, in the order of the ranks, as many each time. Of a rank of which
  // nothing was measured nothing new is known.
  Verdict Judge(const std::vector<RankTimes>& ranks);

 private:
  struct Rank {
    bool straggles = false;
    int contrary_windows = 0;  // in a row, that say otherwise
  };

  std::vector<Rank> ranks_;
};

// "rank 3 (n2) keeps the others waiting: ...", a line without its end.
std::string Describe(const Straggler& straggler, const std::string& host, int steps);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_PEERS_STRAGGLER_WATCH_H_
