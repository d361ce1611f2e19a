#include "rendezvous/stacks/rank_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <set>

namespace ddprun {
namespace rank_set_test {

RankSet Of(const std::set<std::uint32_t>& ranks) {
  RankSet set;
  for (const std::uint32_t rank : ranks) set.Add(rank);
  return set;
}

TEST(RankSetTest, IsWrittenAsRanges) {
  EXPECT_EQ(Of({15, 0, 1, 4, 3, 2, 6, 7}).ToString(), "0-4,6-7,15");
  EXPECT_EQ(Of({1, 3, 5, 7}).ToString(2), "1,3,...");
  EXPECT_EQ(Of({1, 3}).ToString(2), "1,3");
  EXPECT_EQ(RankSet().ToString(), "");
}

TEST(RankSetTest, EndsOfTheNumbersAreRanksToo) {
  constexpr std::uint32_t kLast = std::numeric_limits<std::uint32_t>::max();
  RankSet set = Of({kLast, 0, kLast - 1});
  EXPECT_EQ(set.ranges().size(), 2u);
  set.Add(RankRange{0, kLast});
  EXPECT_EQ(set.count(), std::uint64_t{kLast} + 1);
  EXPECT_TRUE(set.Minus(set).empty());
}

// Compares with std::set, which is slow and known to be right.
TEST(RankSetTest, DoesAsASetOfNumbersDoes) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<std::uint32_t> rank(0, 60);
    std::set<std::uint32_t> a;
    std::set<std::uint32_t> b;
    for (int i = 0; i < 30; ++i) a.insert(rank(random));
    for (unsigned i = 0; i < seed % 40; ++i) b.insert(rank(random));
    RankSet sum = Of(a);
    sum.Add(Of(b));
    std::set<std::uint32_t> both = a;
    both.insert(b.begin(), b.end());
    std::set<std::uint32_t> left = a;
    for (const std::uint32_t each : b) left.erase(each);
    ASSERT_EQ(sum, Of(both)) << "seed " << seed;
    ASSERT_EQ(sum.count(), both.size()) << "seed " << seed;
    ASSERT_EQ(Of(a).Minus(Of(b)), Of(left)) << "seed " << seed;
    ASSERT_TRUE(Covers(sum.ranges(), Of(a).ranges())) << "seed " << seed;
    ASSERT_EQ(Covers(Of(a).ranges(), Of(b).ranges()), both == a) << "seed " << seed;
    for (std::uint32_t each = 0; each <= 61; ++each) {
      ASSERT_EQ(sum.Contains(each), both.count(each) == 1) << "seed " << seed;
    }
    ASSERT_TRUE(RankSet::AreASet(sum.ranges())) << "seed " << seed;
    RankSet again;
    again.AddRanges(sum.ranges());
    ASSERT_EQ(again, sum) << "seed " << seed;
  }
}

TEST(RankSetTest, RefusesRangesThatAreNoSet) {
  EXPECT_FALSE(RankSet::AreASet({{2, 1}}));
  EXPECT_FALSE(RankSet::AreASet({{0, 2}, {2, 3}}));
  EXPECT_FALSE(RankSet::AreASet({{0, 2}, {3, 4}}));  // adjacent: must be {0, 4}
  EXPECT_FALSE(RankSet::AreASet({{5, 6}, {0, 1}}));
  EXPECT_TRUE(RankSet::AreASet({{0, 2}, {4, 4}}));
}

}  // namespace rank_set_test
}  // namespace ddprun
