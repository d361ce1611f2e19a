// Finds the rank for which the others wait (a straggler), from the ranks' own computing times per
// step. No clock, no I/O.
//
// A rank is slow in a window of steps if the first quartile of its step times (its quick steps) is
//   - at least 1 ms longer than the first quartile of the others,
//   - more than 1.25 times as long as the first quartile of the others, and
//   - longer than the median step of the others.
// Each value of the others is the median over the other ranks. Temporary load, such as a
// checkpoint, an evaluation or another program, delays only some steps of a window; the quick steps
// stay quick. A lasting cause (a hot GPU, a slow disk under the data, another program on the same
// cores) delays all steps. If the median step of the others takes as long, nobody waits for this
// rank.
//
// A rank becomes a straggler after three windows in a row in which it is slow. It stops being one
// after three windows in a row in which it is not slow. For a straggler the limit is 1.15 instead
// of 1.25, so that a rank near the limit does not alternate.
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

// One owner. The same input gives the same output, so every rank reaches the same verdict.
class StragglerWatch {
 public:
  struct Verdict {
    std::vector<Straggler> stragglers;  // also slow in this window; longest time first
    std::vector<int> ended;             // ranks that are no stragglers any more, since this window
  };

  // `ranks` are the times of one window by rank. Each call has the same number of ranks. A rank
  // without measured times keeps its state.
  Verdict Judge(const std::vector<RankTimes>& ranks);

 private:
  struct Rank {
    bool straggles = false;
    int contrary_windows = 0;  // windows in a row that contradict `straggles`
  };

  std::vector<Rank> ranks_;
};

// For example "rank 3 (n2) keeps the others waiting: ...". One line, without a line break.
std::string Describe(const Straggler& straggler, const std::string& host, int steps);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_PEERS_STRAGGLER_WATCH_H_
