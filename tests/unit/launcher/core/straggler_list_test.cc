// Which of the reported stragglers are new, so that ddprun names them.
#include "launcher/core/straggler_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

namespace ddprun {
namespace straggler_list_test {

using std::chrono::microseconds;

std::optional<std::string> Begun(StragglerList& list, std::int64_t rank) {
  return list.Begun(rank, "n2", microseconds(15250), microseconds(10100));
}

TEST(StragglerListTest, SaysOnceWhoIsSlowAndOnceThatItIsOver) {
  StragglerList list;
  EXPECT_EQ(list.Ended(3), std::nullopt);
  EXPECT_EQ(Begun(list, 3),
            "rank 3 on n2 keeps the others waiting: of each step it computes 15.2 ms before its "
            "first gradients are ready, the others 10.1 ms");
  EXPECT_EQ(Begun(list, 3), std::nullopt);
  EXPECT_NE(Begun(list, 4), std::nullopt);
  EXPECT_EQ(list.Ended(3), "rank 3 keeps the others waiting no longer");
  EXPECT_EQ(list.Ended(3), std::nullopt);
  EXPECT_NE(Begun(list, 3), std::nullopt);
}

// If a program does not compare its ranks, nobody knows whether a rank is slow.
TEST(StragglerListTest, HasASizeOnceRanksAreCompared) {
  StragglerList list;
  EXPECT_EQ(list.size(), std::nullopt);
  list.Compare();
  EXPECT_EQ(list.size(), 0);
  for (const int rank : {70, 3, 11}) Begun(list, rank);
  EXPECT_EQ(list.size(), 3);
  EXPECT_THAT(list.Lowest(2), testing::ElementsAre(Rank{3}, Rank{11}));
  list.Clear();
  EXPECT_EQ(list.size(), std::nullopt);
  Begun(list, kMaxNodes * kMaxWorkersPerNode);
  EXPECT_EQ(list.size(), 1) << "of a library that does not say that it compares";
  EXPECT_THAT(list.Lowest(2), testing::IsEmpty()) << "no job has such a rank";
}

TEST(StragglerListTest, KnowsNothingOfOtherWorkers) {
  StragglerList list;
  Begun(list, 3);
  list.Clear();
  EXPECT_EQ(list.Ended(3), std::nullopt);
  EXPECT_NE(Begun(list, 3), std::nullopt);
}

TEST(StragglerListTest, IsBoundedWhateverAWorkerSays) {
  StragglerList list;
  constexpr std::int64_t kMany = StragglerList::kMaxListed;
  static_assert(kMany >= kMaxWorkersPerNode, "else a worker of a full node goes unheard");
  for (std::int64_t rank = 0; rank < kMany; ++rank) EXPECT_NE(Begun(list, rank), std::nullopt);
  EXPECT_EQ(Begun(list, kMany), std::nullopt);
  EXPECT_EQ(list.Ended(kMany), std::nullopt);
  EXPECT_NE(list.Ended(0), std::nullopt);
  EXPECT_NE(Begun(list, kMany), std::nullopt);
}

}  // namespace straggler_list_test
}  // namespace ddprun
