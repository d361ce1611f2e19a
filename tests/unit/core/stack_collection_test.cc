// What comes of a request for stacks: who has answered, what is merged, what is refused.
#include "rendezvous/hangs/stack_collection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/stacks/rank_stacks.h"

namespace ddprun {
namespace stack_collection_test {

using testing::ElementsAre;
using testing::IsEmpty;

EncodedStackTree TreeOf(std::uint32_t rank, const std::string& function) {
  StackTree tree;
  tree.Add(rank, ThreadKind::kMain, {{"main", "m.cc", 1, "m"}, {function, "f.cc", 2, "m"}});
  return tree.Encode();
}

// Node `i` of two ranks, on host "ni".
StackCollection Asked(std::uint32_t nodes) {
  StackCollection stacks(StackRequestId{7}, TimePoint(std::chrono::seconds(5)));
  for (std::uint32_t node = 1; node <= nodes; ++node) {
    stacks.Await(AgentId{node}, absl::StrCat("n", node), {2 * node - 2, 2 * node - 1});
  }
  return stacks;
}

TEST(StackCollectionTest, IsCompleteWhenEveryNodeHasAnsweredOrIsGivenUp) {
  StackCollection stacks = Asked(3);
  EXPECT_FALSE(stacks.complete());
  EXPECT_TRUE(stacks.Take(AgentId{3}, TreeOf(4, "Wait")).ok());
  EXPECT_TRUE(stacks.Take(AgentId{1}, TreeOf(0, "Wait")).ok());
  EXPECT_FALSE(stacks.Awaits(AgentId{1}));
  EXPECT_THAT(stacks.Missing(), ElementsAre("n2"));
  stacks.GiveUp(AgentId{2});
  stacks.GiveUp(AgentId{9});
  EXPECT_TRUE(stacks.complete());
  EXPECT_THAT(stacks.Missing(), ElementsAre("n2"));
  stacks.Conclude();
  EXPECT_EQ(stacks.tree().Ranks().ToString(), "0,4");
}

TEST(StackCollectionTest, WhatIsNotWellFormedOrOfOtherRanksCountsAsNoAnswer) {
  StackCollection stacks = Asked(2);
  EncodedStackTree bad = TreeOf(0, "Wait");
  bad.nodes[0].frame = 99;
  EXPECT_EQ(stacks.Take(AgentId{1}, bad).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stacks.Take(AgentId{2}, TreeOf(0, "Wait")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(stacks.complete());
  EXPECT_THAT(stacks.Missing(), ElementsAre("n1", "n2"));
  stacks.Conclude();
  EXPECT_THAT(stacks.tree().Ranks().ranges(), IsEmpty());
}

// Names that make a tree large.
std::string Long(const std::string& name) { return name + std::string(480, 'x'); }

// Each node sends as much as fits, and nothing that another one sends.
TEST(StackCollectionTest, KeepsABoundedTreeHoweverMuchTheNodesSend) {
  constexpr std::uint32_t kNodes = 40;
  StackCollection stacks = Asked(kNodes);
  for (std::uint32_t node = 1; node <= kNodes; ++node) {
    StackTree tree;
    for (int i = 0; i < 1'900; ++i) {
      tree.Add(2 * node - 2, ThreadKind::kOther, {{Long(absl::StrCat(node, "/", i)), "", 0, "m"}});
    }
    const EncodedStackTree encoded = tree.Encode();
    ASSERT_GT(WireBytes(encoded), kMaxStackTreeBytes / 10 * 9);
    ASSERT_TRUE(stacks.Take(AgentId{node}, encoded).ok());
  }
  stacks.Conclude();
  EXPECT_LE(WireBytes(stacks.tree().Encode(1 << 30)), 32 * kMaxStackTreeBytes);
  EXPECT_GT(stacks.tree().left_out(), 0u);
}

// The same frames from all, in an order that leaves holes between the ranks: all of it is kept.
TEST(StackCollectionTest, LosesNothingOfAJobWhoseRanksAreAlike) {
  constexpr std::uint32_t kNodes = 2'000;
  StackCollection stacks = Asked(kNodes);
  for (std::uint32_t i = 0; i < kNodes; ++i) {
    const std::uint32_t node = i * 7 % kNodes + 1;
    StackTree tree;
    std::vector<StackFrame> frames;
    for (int depth = 0; depth < 40; ++depth) {
      frames.push_back({Long(absl::StrCat(depth)), "", 0, "m"});
    }
    tree.Add(2 * node - 2, ThreadKind::kMain, frames);
    tree.Add(2 * node - 1, ThreadKind::kMain, frames);
    ASSERT_TRUE(stacks.Take(AgentId{node}, tree.Encode()).ok());
  }
  stacks.Conclude();
  EXPECT_EQ(stacks.tree().left_out(), 0u);
  EXPECT_EQ(MainStackOf(stacks.tree(), 1'234).size(), 40u);
  EXPECT_EQ(stacks.tree().Ranks().ToString(), "0-3999");
}

}  // namespace stack_collection_test
}  // namespace ddprun
