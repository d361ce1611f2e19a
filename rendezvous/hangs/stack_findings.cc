#include "rendezvous/hangs/stack_findings.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rendezvous/hangs/stack_culprit.h"

namespace ddprun {
namespace {

// bytes_ is the sum of the nodes' trees, so frames shared by nodes count several times. Above
// kMeasureAbove the merged tree is measured, and cut if it exceeds kMostKept. If all of 131,072
// ranks have the same stack, the tree can take 2 MiB, because nodes answer in any order and their
// ranks form many ranges. kMostKept is far above this size: a verdict needs the whole tree.
constexpr std::size_t kMeasureAbove = 32 * kMaxStackTreeBytes;
constexpr std::size_t kMostKept = 16 * kMaxStackTreeBytes;
constexpr std::size_t kMaxEventBytes = 16 << 10;

absl::Status CheckAnswer(RankRange ranks, const EncodedStackTree& tree) {
  if (absl::Status status = StackTree::Check(tree); !status.ok()) return status;
  RankSet own;
  own.Add(ranks);
  const RankSet others = RanksOf(tree).Minus(own);
  if (others.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("a tree of stacks with ranks of another node: " +
                                    others.ToString(4));
}

std::vector<StillRank> RanksOf(const StackQuestion::Culprit& question) {
  std::vector<StillRank> ranks;
  for (const StillNode& node : question.nodes) {
    const auto add = [&](const StillWorker& worker, bool silent) {
      ranks.push_back({Rank{node.first_rank.value + worker.local_rank.value}, node.host, node.rank,
                       worker, silent});
    };
    if (question.leave) {
      for (const StillWorker& worker : node.told->leaving_workers) add(worker, false);
      continue;
    }
    for (const StillWorker& worker : node.told->still_workers) add(worker, false);
    for (const StillWorker& worker : node.told->silent_workers) add(worker, true);
  }
  return ranks;
}

}  // namespace

void StackMerge::Take(const std::string& host, RankRange ranks, const EncodedStackTree& tree) {
  if (const absl::Status status = CheckAnswer(ranks, tree); !status.ok()) {
    return Refuse(host, std::string(status.message()));
  }
  recent_.Merge(tree);
  bytes_ += WireBytes(tree);
  const bool large = bytes_ > kMeasureAbove;
  if (++recent_trees_ == kBatch || large) MergeRecent();
  if (large) Compact();
}

void StackMerge::MergeRecent() {
  tree_.Merge(std::exchange(recent_, {}));
  recent_trees_ = 0;
}

void StackMerge::Compact() {
  bytes_ = tree_.wire_bytes();
  if (bytes_ <= kMostKept) return;
  absl::StatusOr<StackTree> smaller = StackTree::Decode(tree_.Encode(kMostKept), kMostKept);
  if (smaller.ok()) tree_ = *std::move(smaller);  // always ok: Decode() accepts what Encode() makes
  bytes_ = tree_.wire_bytes();
}

StackFindings StackMerge::Conclude(const StackQuestion& question) {
  MergeRecent();
  StackFindings findings;
  if (question.culprit) {
    StackFindings::Culprit& found = findings.culprit.emplace(StackFindings::Culprit{});
    const std::vector<StillRank> ranks = RanksOf(*question.culprit);
    found.verdict = question.culprit->leave
                        ? WhoDoesNotEnd(ranks)
                        : FindCulprit(ranks, tree_, question.culprit->silent_tell);
    if (found.verdict.culprit) {
      found.frames = TopFrames(tree_, found.verdict.culprit->rank);
      found.stack = DescribeStack(*found.verdict.culprit, tree_);
    }
    found.for_event = tree_.Encode(kMaxEventBytes);
    found.for_nodes = std::make_shared<const EncodedStackTree>(tree_.Encode(question.sent_bytes));
  }
  findings.tree = tree_.Encode(kMaxSentStackTreeBytes);
  findings.refused = std::move(refused_);
  return findings;
}

}  // namespace ddprun
