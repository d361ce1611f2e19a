// Ranks and times as text.
#ifndef DDPRUN_WORKER_SRC_BASE_IN_WORDS_H_
#define DDPRUN_WORKER_SRC_BASE_IN_WORDS_H_

#include <chrono>
#include <string>
#include <vector>

namespace ddp::internal {

// "rank 3"; "ranks 0, 1, 2"; for more than 16 ranks the first 16 and "and 5 more"; "no rank" if
// `ranks` is empty.
std::string RankList(const std::vector<int>& ranks);

// "1.5 s"
std::string Seconds(std::chrono::milliseconds time);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_IN_WORDS_H_
