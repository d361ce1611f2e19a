// Ranks in words.
#ifndef DDPRUN_WORKER_SRC_BASE_RANK_LIST_H_
#define DDPRUN_WORKER_SRC_BASE_RANK_LIST_H_

#include <string>
#include <vector>

namespace ddp::internal {

// "rank 3", "ranks 0, 1, 2"; of more than 16, the first 16 and "and 5 more". "no rank" for none.
std::string RankList(const std::vector<int>& ranks);

}  // namespace ddp::internal

#endif  // DDPRUN_WORKER_SRC_BASE_RANK_LIST_H_
