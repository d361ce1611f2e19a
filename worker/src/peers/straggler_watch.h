// Which rank keeps the others waiting, judged by its own computing time per step. Pure.
//
// A rank is slow in a window of steps if the first quartile of its step times (its quick steps) is
// at least 1 ms longer than the first quartile of the others, 1.25 times as long, and longer than
// the median step of the others. Temporary load, such as a checkpoint, an evaluation or another
// program, delays some steps of a window and leaves the quick ones quick. A lasting cause (a hot
// GPU, a slow disk under the data, a neighbour on the cores) delays all of them. If the median step
// of the others takes as long, nobody waits for this rank.
//
// Three slow windows in a row make a rank a straggler, and three windows in a row that are not slow
// end that. For a straggler the limit is 1.15 instead of 1.25, so that a rank near it does not
// alternate.
#ifndef DDPRUN_WORKER_SRC_PEERS_STRAGGLER_WATCH_H_
#define DDPRUN_WORKER_SRC_PEERS_STRAGGLER_WATCH_H_

#include <ddp/data_parallel_options.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace ddp::internal {

// Step times of one rank in a window.
struct RankTimes {
  std::chrono::nanoseconds first_quartile{0};
  std::chrono::nanoseconds median{0};  // 0: nothing was measured

  bool IsKnown() const { return median.count() > 0; }
};

RankTimes Summarize(std::vector<std::chrono::nanoseconds> times);

// One owner. Equal input gives equal output, so every rank reaches the same verdict.
class StragglerWatch {
 public:
  struct Verdict {
    std::vector<Straggler> stragglers;  // slow in this window as well; longest time first
    std::vector<int> ended;             // ranks that stopped being stragglers with this window
  };

  // `ranks`: the times of one window by rank, equally many in each call. A rank without measured
  // times keeps its state.
  Verdict Judge(const std::vector<RankTimes>& ranks);

 private:
  struct Rank {
    bool straggles = false;
    int contrary_windows = 0;  // in a row; they contradict `straggles`
  };

  std::vector<Rank> ranks_;
};

// "rank 3 (n2) keeps the others waiting: ...", a line without a line break.
std::string Describe(const Straggler& straggler, const std::string& host, int steps);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_PEERS_STRAGGLER_WATCH_H_
