// The result of taking the stacks of all ranks: the merged tree, and the rank that a hanging job
// waits for.
//
// Pure, but slow in large jobs: a tree of 131,072 ranks takes tens of milliseconds. So JobMachine
// only requests the work, with actions; JobLoop runs it on another thread.
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

// A node of a job that stands still.
struct StillNode {
  Rank first_rank;
  std::string host;
  NodeRank rank;
  std::shared_ptr<const NodeProgress> told;  // never null
};

// The question to answer from the stacks.
struct StackQuestion {
  // Asks which rank the job waits for.
  struct Culprit {
    std::vector<StillNode> nodes;
    bool silent_tell = false;  // FindCulprit()
    // All workers that report have announced their end (BYE). Asks which of them still runs.
    bool leave = false;
  };
  std::optional<Culprit> culprit{};
  std::size_t sent_bytes = kMaxStackTreeBytes;  // size limit of the tree that every node gets
};

struct StackFindings {
  // Set if the question had a culprit.
  struct Culprit {
    HangVerdict verdict{};
    std::vector<StackFrame> frames{};  // TopFrames() of the named rank
    std::string stack{};               // DescribeStack() of the named rank
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

// Merges the trees of one request. One thread at a time.
class StackMerge {
 public:
  // Adds a node's answer. Refuses a malformed tree, and one with ranks outside of `ranks`.
  void Take(const std::string& host, RankRange ranks, const EncodedStackTree& tree);
  // The node's answer is not a tree.
  void Refuse(const std::string& host, std::string why) {
    refused_.push_back({host, std::move(why)});
  }
  // Answers the question from all trees taken. The last call.
  StackFindings Conclude(const StackQuestion& question);

 private:
  // Trees are merged in batches. Nodes answer in any order, so their ranks form many ranges, and
  // inserting one range takes time linear in their number.
  static constexpr int kBatch = 128;

  void MergeRecent();
  // Bounds the memory, whatever the nodes send.
  void Compact();

  StackTree tree_;
  StackTree recent_;  // merged trees that are not in tree_ yet
  int recent_trees_ = 0;
  std::size_t bytes_ = 0;  // of tree_ and recent_, at most
  std::vector<StackFindings::Refused> refused_;
};

}  // namespace ddprun

#endif  // DDPRUN_RENDEZVOUS_HANGS_STACK_FINDINGS_H_
