#include "rendezvous/stacks/rank_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rendezvous/stacks/stack_text.h"

namespace ddprun {
namespace rank_stacks_test {

std::vector<StackFrame> Frames(const std::vector<std::string>& functions) {
  std::vector<StackFrame> frames;
  for (const std::string& function : functions) frames.push_back({function, "a.cc", 1, "a"});
  return frames;
}

StackTree Tree() {
  StackTree tree;
  for (const std::uint32_t rank : {0, 1, 2}) {
    tree.Add(rank, ThreadKind::kMain, Frames({"main", "Step", "Wait"}));
  }
  tree.Add(3, ThreadKind::kMain, Frames({"main", "Load", "read"}));
  tree.Add(3, ThreadKind::kOther, Frames({"Loop", "poll"}));
  tree.Add(3, ThreadKind::kOther, Frames({"Loop", "Work"}));
  tree.Add(2, ThreadKind::kOther, Frames({"Loop"}));
  tree.Add(RankNote{3, RankTrouble::kInCall, "read(/data)"});
  tree.Add(RankNote{1, RankTrouble::kStopped, "stopped"});
  return tree;
}

TEST(RankStacksTest, TheMainStackOfARankIsItsPathThroughTheTree) {
  const StackTree tree = Tree();
  EXPECT_EQ(MainStackOf(tree, 3), Frames({"main", "Load", "read"}));
  EXPECT_EQ(MainStackOf(tree, 1), Frames({"main", "Step", "Wait"}));
  EXPECT_TRUE(MainStackOf(tree, 9).empty());
}

TEST(RankStacksTest, RanksWithAFrameAreFoundAtAnyDepthOfTheirMainThreads) {
  const StackTree tree = Tree();
  const auto in = [&](const std::string& function) {
    return RanksWithFrame(tree, [&](const StackFrame& frame) { return frame.function == function; })
        .ToString();
  };
  EXPECT_EQ(in("main"), "0-3");
  EXPECT_EQ(in("Wait"), "0-2");
  EXPECT_EQ(in("read"), "3");
  EXPECT_EQ(in("Loop"), "");
}

TEST(RankStacksTest, TheTreeOfSomeRanksHasTheirStacksAndNotesAlone) {
  const StackTree only = OnlyRanks(Tree(), RankSet(3));
  StackTree expected;
  expected.Add(3, ThreadKind::kMain, Frames({"main", "Load", "read"}));
  expected.Add(3, ThreadKind::kOther, Frames({"Loop", "poll"}));
  expected.Add(3, ThreadKind::kOther, Frames({"Loop", "Work"}));
  expected.Add(RankNote{3, RankTrouble::kInCall, "read(/data)"});
  EXPECT_EQ(only.Encode(), expected.Encode());
  EXPECT_EQ(OnlyRanks(Tree(), RankSet(9)).Encode(), StackTree().Encode());
}

}  // namespace rank_stacks_test
}  // namespace ddprun
