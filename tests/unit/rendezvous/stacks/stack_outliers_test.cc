#include "rendezvous/stacks/stack_outliers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddprun {
namespace stack_outliers_test {

void Add(std::uint32_t rank, const std::vector<std::string>& functions, StackTree* tree) {
  std::vector<StackFrame> frames;
  for (const std::string& function : functions) frames.push_back({function, "a.cc", rank, "a"});
  tree->Add(rank, ThreadKind::kMain, frames);
}

TEST(StackOutliersTest, TheRankThatLeavesTheOthersFirstIsNamed) {
  StackTree tree;
  for (const std::uint32_t rank : {0, 1, 2, 3}) Add(rank, {"main", "Step", "Wait", "poll"}, &tree);
  Add(4, {"main", "Step", "Wait", "lock"}, &tree);  // waits like they do, seen at another moment
  Add(5, {"main", "Load", "read"}, &tree);
  const std::vector<StackOutliers> outliers = OutliersOf(tree);
  ASSERT_EQ(outliers.size(), 2u);
  EXPECT_EQ(outliers[0].ranks.ToString(), "5");
  EXPECT_EQ(outliers[0].depth, 1u);
  ASSERT_EQ(outliers[0].majority_next.size(), 1u);
  EXPECT_EQ(outliers[0].majority_next[0].function, "Step");
  EXPECT_EQ(outliers[1].ranks.ToString(), "4");
  EXPECT_EQ(UnlikeTheMajority(tree).ToString(), "5");
}

TEST(StackOutliersTest, WithoutAMajorityNobodyIsUnlikeIt) {
  StackTree tree;
  Add(0, {"main", "Wait"}, &tree);
  Add(1, {"main", "Load"}, &tree);
  EXPECT_TRUE(UnlikeTheMajority(tree).empty());
  EXPECT_TRUE(UnlikeTheMajority(StackTree()).empty());
}

TEST(StackOutliersTest, AllAlikeHasNoOutlierWhateverTheirLines) {
  StackTree tree;
  for (const std::uint32_t rank : {0, 1, 2}) Add(rank, {"main", "Wait"}, &tree);
  EXPECT_TRUE(UnlikeTheMajority(tree).empty());
}

TEST(StackOutliersTest, WhoGoesOnWhereTheOthersEndIsUnlikeThem) {
  StackTree tree;
  for (const std::uint32_t rank : {0, 1, 2}) Add(rank, {"main", "Wait"}, &tree);
  Add(3, {"main", "Wait", "Callback"}, &tree);
  EXPECT_EQ(UnlikeTheMajority(tree).ToString(), "3");
}

TEST(StackOutliersTest, OnlyThoseWhoAreAskedForCount) {
  StackTree tree;
  for (const std::uint32_t rank : {0, 1, 2, 3, 4}) Add(rank, {"main", "Wait"}, &tree);
  for (const std::uint32_t rank : {5, 6, 7}) Add(rank, {"main", "Load"}, &tree);
  Add(8, {"main", "Save"}, &tree);
  EXPECT_EQ(UnlikeTheMajority(tree).ToString(), "5-8");
  RankSet outside;
  outside.Add(RankRange{5, 8});
  EXPECT_EQ(UnlikeTheMajority(tree, outside).ToString(), "8");
}

}  // namespace stack_outliers_test
}  // namespace ddprun
