// Which rank is named where no rank moves.
#include "rendezvous/hangs/hang_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace hang_verdict_test {

using std::chrono::seconds;
using testing::HasSubstr;

CollectiveCall AllReduce(std::int64_t sequence, std::int64_t bytes = 12'100'000) {
  return {"default", sequence, "all_reduce", bytes};
}

// Four ranks on two nodes, all in the same place.
std::vector<StillRank> Ranks(std::optional<CollectiveCall> inside = std::nullopt) {
  std::vector<StillRank> ranks;
  for (int i = 0; i < 4; ++i) {
    StillWorker worker{LocalRank{i % 2}, 100 + i, seconds(42), 1204, ""};
    worker.inside = inside;
    ranks.push_back({Rank{i}, i < 2 ? "n1" : "n2", NodeRank{i / 2}, worker});
  }
  return ranks;
}

TEST(FindCulpritTest, ARankThatIsStoppedComesFirst) {
  auto ranks = Ranks(AllReduce(7));
  ranks[1].worker.inside.reset();
  ranks[3].worker.state = ProcessState::kStopped;
  const HangVerdict verdict = FindCulprit(ranks);
  EXPECT_EQ(verdict.culprit->rank, Rank{3});
  EXPECT_THAT(verdict.why, HasSubstr("rank 3 on n2 (pid 103) is stopped by a signal"));
}

TEST(FindCulpritTest, ARankInDiskWaitIsNamedWithWhatItWaitsFor) {
  auto ranks = Ranks();
  ranks[2].worker.state = ProcessState::kDiskWait;
  ranks[2].worker.waits_for = "read(/data/shard-0017)";
  EXPECT_EQ(FindCulprit(ranks).why,
            "rank 2 on n2 (pid 102) is in disk wait (D) since 42.0 s; it is in "
            "read(/data/shard-0017)");
}

TEST(FindCulpritTest, ARankThatHasNotEnteredTheCollectiveOfTheOthersIsNamed) {
  auto ranks = Ranks(AllReduce(9632));
  ranks[2].worker.inside.reset();
  const HangVerdict verdict = FindCulprit(ranks);
  EXPECT_EQ(verdict.culprit->rank, Rank{2});
  EXPECT_EQ(verdict.why,
            "rank 2 on n2 (pid 102) has not entered all_reduce 9632 (12.1 MB); 3 ranks wait in it "
            "since 42.0 s");
  ranks[2].worker.inside = AllReduce(9630);
  EXPECT_THAT(FindCulprit(ranks).why, HasSubstr("it is still in all_reduce 9630"));
}

TEST(FindCulpritTest, ARankThatIsBusyOutsideOfCollectivesMayBeAtWork) {
  auto ranks = Ranks(AllReduce(1));
  ranks[2].worker.inside.reset();
  EXPECT_FALSE(FindCulprit(ranks).busy);
  ranks[2].worker.busy = true;
  EXPECT_TRUE(FindCulprit(ranks).busy);
}

TEST(FindCulpritTest, CallsThatDoNotMatchAreBothNamed) {
  auto ranks = Ranks(AllReduce(5));
  ranks[1].worker.inside = CollectiveCall{"default", 5, "broadcast", 400};
  const HangVerdict verdict = FindCulprit(ranks);
  EXPECT_EQ(verdict.culprit->rank, Rank{1});
  EXPECT_THAT(verdict.why, HasSubstr("entered broadcast 5 (0.0 MB)"));
  EXPECT_THAT(verdict.why, HasSubstr("entered all_reduce 5 (12.1 MB)"));
}

TEST(FindCulpritTest, WithoutCollectivesTheRankThatIsBehindIsNamed) {
  auto ranks = Ranks();
  ranks[3].worker.step = 1203;
  EXPECT_EQ(FindCulprit(ranks).culprit->rank, Rank{3});
  ranks = Ranks();
  ranks[1].worker.phase = "evaluation";
  const HangVerdict verdict = FindCulprit(ranks);
  EXPECT_EQ(verdict.culprit->rank, Rank{1});
  EXPECT_THAT(verdict.why, HasSubstr("is in evaluation, the others are not"));
}

TEST(FindCulpritTest, WhereAllWaitInOneCollectiveItIsTheNetworkOrTheLibrary) {
  EXPECT_EQ(FindCulprit(Ranks(AllReduce(5))).why,
            "all ranks wait in all_reduce 5 (12.1 MB): network or library");
}

TEST(FindCulpritTest, NobodyIsNamedWhereNothingIsKnown) {
  EXPECT_FALSE(FindCulprit({}).culprit.has_value());
  EXPECT_THAT(FindCulprit(Ranks()).why, HasSubstr("all ranks look alike"));
}

}  // namespace hang_verdict_test
}  // namespace ddprun
