// What the stacks of all ranks say: the merged tree, and the rank that a hang is blamed on.
//
// Pure, and slow in large jobs: a tree of 131,072 ranks takes tens of milliseconds. So the
// JobMachine does not do it itself, it asks for it by actions.
#ifndef DDPRUN_RENDEZVOUS_HANGS_STACK_FINDINGS_H_
#define DDPRUN_RENDEZVOUS_HANGS_STACK_FINDINGS_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/core/progress.h"
#include "rendezvous/core/types.h"
#include "rendezvous/hangs/hang_verdict.h"
#include "rendezvous/stacks/stack_tree.h"

namespace ddprun {

// A node of a job that does not move.
struct StillNode {
  Rank first_rank;
  std::string host;
  NodeRank rank;
  std::shared_ptr<const NodeProgress> told;  // never null
};

// What is asked about the stacks.
struct StackQuestion {
  // Which rank keeps the job from going on.
  struct Culprit {
    std::vector<StillNode> nodes;
    bool silent_tell = false;  // ranks that have told nothing are expected to: FindCulprit()
    // All that have told have said BYE: which of them does not end is asked.
    bool leave = false;
  };
  std::optional<Culprit> culprit{};
  std::size_t sent_bytes = kMaxStackTreeBytes;  // of the tree that every node gets, at most
};

struct StackFindings {
  // Where a culprit was asked for.
  struct Culprit {
    HangVerdict verdict{};
    std::vector<StackFrame> frames{};  // of the rank that the verdict names: TopFrames()
    std::string stack{};               // of the same: DescribeStack()
    EncodedStackTree for_event{};
    std::shared_ptr<const EncodedStackTree> for_nodes{};
  };
  // A node whose stacks are not in the tree.
  struct Refused {
    std::string host;
    std::string why;
  };

  std::optional<Culprit> culprit{};
  EncodedStackTree tree{};  // for operators
  std::vector<Refused> refused{};
};

// The trees of one request.
class StackMerge {
 public:
  // The answer of a node, which has these ranks. One that is malformed, or has other ranks, is
  // refused.
  void Take(const std::string& host, RankRange ranks, const EncodedStackTree& tree);
  // An answer that is no tree.
  void Refuse(const std::string& host, std::string why) {
    refused_.push_back({host, std::move(why)});
  }
  // Of all that were taken. The last call.
  StackFindings Conclude(const StackQuestion& question);

 private:
  // Trees are merged in batches of this many. Nodes answer in any order, so their ranks are many
  // ranges, and inserting a range takes time linear in the number of ranges.
  static constexpr int kBatch = 128;

  void MergeRecent();
  // Keeps the memory bounded, however much the nodes send.
  void Compact();

  StackTree tree_;
  StackTree recent_;  // not in tree_ yet
  int recent_trees_ = 0;
  std::size_t bytes_ = 0;  // of tree_ and recent_, at most
  std::vector<StackFindings::Refused> refused_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_HANGS_STACK_FINDINGS_H_
