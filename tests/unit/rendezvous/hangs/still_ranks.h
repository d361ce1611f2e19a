// Ranks that do not move, and their stacks, for the tests of verdicts.
#ifndef DDPRUN_TESTS_UNIT_RENDEZVOUS_HANGS_STILL_RANKS_H_
#define DDPRUN_TESTS_UNIT_RENDEZVOUS_HANGS_STILL_RANKS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/hangs/hang_verdict.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun::still_ranks {

inline CollectiveCall AllReduce(std::int64_t sequence, std::int64_t bytes = 12'100'000) {
  return {"default", sequence, "all_reduce", bytes};
}

// Four ranks on two nodes, all in the same call.
inline std::vector<StillRank> Ranks(std::optional<CollectiveCall> inside = std::nullopt) {
  std::vector<StillRank> ranks;
  for (int i = 0; i < 4; ++i) {
    StillWorker worker{LocalRank{i % 2}, 100 + i, std::chrono::seconds(42), 1204, ""};
    worker.inside = inside;
    ranks.push_back({Rank{i}, i < 2 ? "n1" : "n2", NodeRank{i / 2}, worker});
  }
  return ranks;
}

// Adds the main thread of this rank to the tree. Each of `functions` is a frame: FUNCTION, or
// FUNCTION@FILE for a Python frame.
inline void AddStack(std::uint32_t rank, const std::vector<std::string>& functions,
                     StackTree* tree) {
  std::vector<StackFrame> frames;
  for (const std::string& function : functions) {
    const auto at = function.find('@');
    frames.push_back(at == std::string::npos ? StackFrame{function, "", 0, "libtrain.so"}
                                             : StackFrame{function.substr(0, at),
                                                          function.substr(at + 1), 7, "python"});
  }
  tree->Add(rank, ThreadKind::kMain, frames);
}

inline const std::vector<std::string> kWaits = {"train@t.py", "backward@_tensor.py",
                                                "c10d::Reducer::finalize_backward()", "wait"};

}  // namespace ddprun::still_ranks

#endif  // DDPRUN_TESTS_UNIT_RENDEZVOUS_HANGS_STILL_RANKS_H_
