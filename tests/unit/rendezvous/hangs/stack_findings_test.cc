// Tests StackMerge: which answers to a request for stacks are merged, refused and kept.
#include "rendezvous/hangs/stack_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/stacks/rank_stacks.h"

namespace ddprun {
namespace stack_findings_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

EncodedStackTree TreeOf(std::uint32_t rank, const std::string& function) {
  StackTree tree;
  tree.Add(rank, ThreadKind::kMain, {{"main", "m.cc", 1, "m"}, {function, "f.cc", 2, "m"}});
  return tree.Encode();
}

// Node `i`, with two ranks, on host "ni".
void Take(StackMerge* merge, std::uint32_t node, const EncodedStackTree& tree) {
  merge->Take(absl::StrCat("n", node), {2 * node - 2, 2 * node - 1}, tree);
}

// Everything that the merge has kept.
StackTree Conclude(StackMerge* merge) {
  constexpr std::size_t kAll = 1 << 30;
  const StackFindings findings =
      merge->Conclude({.culprit = StackQuestion::Culprit{}, .sent_bytes = kAll});
  return StackTree::Decode(*findings.culprit->for_nodes, kAll).value();
}

TEST(StackMergeTest, HasTheRanksOfAllThatWasTaken) {
  StackMerge merge;
  Take(&merge, 3, TreeOf(4, "Wait"));
  Take(&merge, 1, TreeOf(0, "Wait"));
  EXPECT_EQ(Conclude(&merge).Ranks().ToString(), "0,4");
}

TEST(StackMergeTest, WhatIsNotWellFormedOrOfOtherRanksIsRefused) {
  StackMerge merge;
  EncodedStackTree bad = TreeOf(0, "Wait");
  bad.nodes[0].frame = 99;
  Take(&merge, 1, bad);
  Take(&merge, 2, TreeOf(0, "Wait"));
  const StackFindings findings = merge.Conclude({});
  using Refused = StackFindings::Refused;
  EXPECT_THAT(findings.refused,
              ElementsAre(Field(&Refused::host, "n1"),
                          AllOf(Field(&Refused::host, "n2"),
                                Field(&Refused::why, HasSubstr("ranks of another node: 0")))));
  EXPECT_THAT(findings.tree.nodes, IsEmpty());
  EXPECT_FALSE(findings.culprit);
}

// A silent rank may be the culprit only if the question allows it.
TEST(StackMergeTest, JudgesTheRanksOfAllNodes) {
  NodeProgress told;
  told.workers = 1;
  told.still_workers.push_back({.local_rank = LocalRank{1}, .pid = 7});
  told.still_workers.back().state = ProcessState::kStopped;
  StackQuestion question;
  question.culprit.emplace(StackQuestion::Culprit{});
  question.culprit->nodes = {
      {Rank{2}, "n2", NodeRank{1}, std::make_shared<const NodeProgress>(told)}};
  StackMerge merge;
  Take(&merge, 2, TreeOf(3, "Load"));
  const StackFindings findings = merge.Conclude(question);
  ASSERT_TRUE(findings.culprit && findings.culprit->verdict.culprit);
  EXPECT_EQ(findings.culprit->verdict.culprit->rank, Rank{3});
  EXPECT_THAT(findings.culprit->verdict.why, HasSubstr("rank 3 on n2 (pid 7)"));
  EXPECT_THAT(findings.culprit->stack, HasSubstr("Load f.cc:2"));
  EXPECT_THAT(findings.culprit->frames, testing::SizeIs(2));
  EXPECT_EQ(*findings.culprit->for_nodes, findings.tree);
}

// Names that make a tree large.
std::string Long(const std::string& name) { return name + std::string(480, 'x'); }

// Each node sends a tree of maximum size, with nothing in common with the other nodes.
TEST(StackMergeTest, KeepsABoundedTreeHoweverMuchTheNodesSend) {
  constexpr std::uint32_t kNodes = 40;
  StackMerge merge;
  for (std::uint32_t node = 1; node <= kNodes; ++node) {
    StackTree tree;
    for (int i = 0; i < 1'900; ++i) {
      tree.Add(2 * node - 2, ThreadKind::kOther, {{Long(absl::StrCat(node, "/", i)), "", 0, "m"}});
    }
    const EncodedStackTree encoded = tree.Encode();
    ASSERT_GT(WireBytes(encoded), kMaxStackTreeBytes / 10 * 9);
    Take(&merge, node, encoded);
  }
  const StackTree kept = Conclude(&merge);
  EXPECT_LE(kept.wire_bytes(), 32 * kMaxStackTreeBytes);
  EXPECT_GT(kept.left_out(), 0u);
}

// All nodes send the same frames, in an order that leaves gaps between the ranks: everything is
// kept.
TEST(StackMergeTest, LosesNothingOfAJobWhoseRanksAreAlike) {
  constexpr std::uint32_t kNodes = 2'000;
  StackMerge merge;
  for (std::uint32_t i = 0; i < kNodes; ++i) {
    const std::uint32_t node = i * 7 % kNodes + 1;
    StackTree tree;
    std::vector<StackFrame> frames;
    for (int depth = 0; depth < 40; ++depth) {
      frames.push_back({Long(absl::StrCat(depth)), "", 0, "m"});
    }
    tree.Add(2 * node - 2, ThreadKind::kMain, frames);
    tree.Add(2 * node - 1, ThreadKind::kMain, frames);
    Take(&merge, node, tree.Encode());
  }
  const StackTree kept = Conclude(&merge);
  EXPECT_EQ(kept.left_out(), 0u);
  EXPECT_EQ(MainStackOf(kept, 1'234).size(), 40u);
  EXPECT_EQ(kept.Ranks().ToString(), "0-3999");
}

}  // namespace stack_findings_test
}  // namespace ddprun
