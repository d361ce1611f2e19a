// Tests FindCulprit(): which rank a hang is blamed on.
#include "rendezvous/hangs/hang_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/hangs/stack_culprit.h"
#include "tests/unit/rendezvous/hangs/still_ranks.h"

namespace ddprun {
namespace hang_verdict_test {

using std::chrono::seconds;
using still_ranks::AddStack;
using still_ranks::AllReduce;
using still_ranks::kWaits;
using still_ranks::Ranks;
using testing::HasSubstr;

// Four ranks that average three buckets at the same time, in the calls 58 to 60.
std::vector<StillRank> RanksInBuckets() {
  auto ranks = Ranks(AllReduce(60));
  for (StillRank& rank : ranks) rank.worker.earlier = {AllReduce(58), AllReduce(59)};
  return ranks;
}

TEST(FindCulpritTest, ARankThatIsStoppedComesFirst) {
  auto ranks = Ranks(AllReduce(7));
  ranks[1].worker.inside.reset();
  ranks[3].worker.state = ProcessState::kStopped;
  const HangVerdict verdict = FindCulprit(ranks, StackTree());
  EXPECT_EQ(verdict.culprit->rank, Rank{3});
  EXPECT_THAT(verdict.why, HasSubstr("rank 3 on n2 (pid 103) is stopped by a signal"));
}

// Seen red when the pid of the stopped process was not named: to continue pid 103, a shell, has no
// effect.
TEST(FindCulpritTest, TheProcessOfARankThatIsStoppedIsNamed) {
  auto ranks = Ranks(AllReduce(7));
  ranks[3].worker.state = ProcessState::kStopped;
  ranks[3].worker.waits_for = "process 204 (python3)";
  EXPECT_EQ(FindCulprit(ranks, StackTree()).why,
            "rank 3 on n2 (pid 103) is stopped by a signal (SIGCONT continues it) since 42.0 s: "
            "process 204 (python3)");
  StackTree tree;
  tree.Add(3, ThreadKind::kMain, {{"main", "m.cc", 1, "trainer"}});
  EXPECT_EQ(DescribeStack(ranks[3], tree), "rank 3: main m.cc:1 stopped since 42.0 s");
}

TEST(FindCulpritTest, AStoppedRankComesBeforeOneInDiskWait) {
  auto ranks = Ranks();
  ranks[0].worker.state = ProcessState::kDiskWait;
  ranks[3].worker.state = ProcessState::kStopped;
  EXPECT_EQ(FindCulprit(ranks, StackTree()).culprit->rank, Rank{3});
}

TEST(FindCulpritTest, ARankInDiskWaitIsNamedWithWhatItWaitsFor) {
  auto ranks = Ranks();
  ranks[2].worker.state = ProcessState::kDiskWait;
  ranks[2].worker.waits_for = "read(/data/shard-0017)";
  EXPECT_EQ(FindCulprit(ranks, StackTree()).why,
            "rank 2 on n2 (pid 102) is in disk wait (D) since 42.0 s; it is in "
            "read(/data/shard-0017)");
}

TEST(FindCulpritTest, ARankThatHasNotEnteredTheCollectiveOfTheOthersIsNamed) {
  auto ranks = Ranks(AllReduce(9632));
  ranks[2].worker.inside.reset();
  const HangVerdict verdict = FindCulprit(ranks, StackTree());
  EXPECT_EQ(verdict.culprit->rank, Rank{2});
  EXPECT_EQ(verdict.why,
            "rank 2 on n2 (pid 102) has not entered all_reduce 9632 (12.1 MB); 3 ranks wait in it "
            "since 42.0 s");
  ranks[2].worker.inside = AllReduce(9630);
  EXPECT_THAT(FindCulprit(ranks, StackTree()).why, HasSubstr("it is still in all_reduce 9630"));
}

// As in a gather: rank 0 waits for rank 2 in a call; the others have gone on to the next call. Seen
// red when the first rank that is not in the newest call was named.
TEST(FindCulpritTest, ARankOutsideComesBeforeOneInAnEarlierCall) {
  auto ranks = Ranks(AllReduce(6));
  ranks[0].worker.inside = AllReduce(5);
  ranks[2].worker.inside.reset();
  EXPECT_EQ(FindCulprit(ranks, StackTree()).culprit->rank, Rank{2});
  // Seen red when the newest call was named, although rank 0 does not wait in it.
  EXPECT_THAT(FindCulprit(ranks, StackTree()).why,
              HasSubstr("(pid 102) has not entered all_reduce 5 (12.1 MB); 3 ranks wait in it or a "
                        "later one since"));
  ranks[2].worker.inside = AllReduce(4);
  EXPECT_EQ(FindCulprit(ranks, StackTree()).culprit->rank, Rank{2}) << "it is the furthest behind";
}

TEST(FindCulpritTest, ARankThatIsBusyOutsideOfCollectivesMayBeAtWork) {
  auto ranks = Ranks(AllReduce(1));
  ranks[2].worker.inside.reset();
  EXPECT_FALSE(FindCulprit(ranks, StackTree()).busy);
  ranks[2].worker.busy = true;
  EXPECT_TRUE(FindCulprit(ranks, StackTree()).busy);
}

TEST(FindCulpritTest, CallsThatDoNotMatchAreBothNamed) {
  auto ranks = Ranks(AllReduce(5));
  ranks[1].worker.inside = CollectiveCall{"default", 5, "broadcast", 400};
  const HangVerdict verdict = FindCulprit(ranks, StackTree());
  EXPECT_EQ(verdict.culprit->rank, Rank{1});
  EXPECT_THAT(verdict.why, HasSubstr("entered broadcast 5 (400 bytes)"));
  EXPECT_THAT(verdict.why, HasSubstr("entered all_reduce 5 (12100000 bytes)"));
}

// Seen red when only the newest call of each rank was compared.
TEST(FindCulpritTest, AMismatchIsNotHiddenByLaterCallsThatMatch) {
  auto ranks = RanksInBuckets();
  ranks[1].worker.earlier[0] = AllReduce(58, 12'000);
  const HangVerdict verdict = FindCulprit(ranks, StackTree());
  EXPECT_EQ(verdict.culprit->rank, Rank{1});
  EXPECT_EQ(verdict.why,
            "rank 1 on n1 (pid 101) entered all_reduce 58 (12000 bytes); rank 0 on n1 (pid 100) "
            "entered all_reduce 58 (12100000 bytes): their calls do not match");
  EXPECT_FALSE(verdict.blames);
}

// Rank 1 waits in a broadcast, while the others wait in an all_reduce with the same number.
TEST(FindCulpritTest, ARankIsNotBehindWhereTheCallThatItWaitsInDoesNotMatch) {
  auto ranks = RanksInBuckets();
  ranks[1].worker.inside = CollectiveCall{"default", 58, "broadcast", 400};
  ranks[1].worker.earlier.clear();
  EXPECT_THAT(FindCulprit(ranks, StackTree()).why, HasSubstr("their calls do not match"));
  ranks[3].worker.inside.reset();
  ranks[3].worker.earlier.clear();
  EXPECT_THAT(FindCulprit(ranks, StackTree()).why,
              HasSubstr("rank 3 on n2 (pid 103) has not entered all_reduce 58"))
      << "a rank that is in no collective comes first";
}

TEST(FindCulpritTest, TheFirstCallThatARankHasNotEnteredIsShown) {
  auto ranks = RanksInBuckets();
  ranks[2].worker.inside.reset();
  ranks[2].worker.earlier.clear();
  EXPECT_THAT(FindCulprit(ranks, StackTree()).why,
              HasSubstr("has not entered all_reduce 58 (12.1 MB); 3 ranks wait in it or a later"));
}

// A later bucket may complete before an earlier one. Seen red when a rank's place was the call that
// it waits in.
TEST(FindCulpritTest, ARankThatHasCompletedLaterCallsIsNotBehind) {
  auto ranks = RanksInBuckets();
  ranks[2].worker.inside = AllReduce(58);
  ranks[2].worker.earlier.clear();
  EXPECT_THAT(FindCulprit(ranks, StackTree()).why, HasSubstr("(pid 102) has not entered"));
  ranks[2].worker.entered = 60;
  EXPECT_EQ(FindCulprit(ranks, StackTree()).why,
            "all ranks wait in all_reduce 58 (12.1 MB): network or library");
}

TEST(FindCulpritTest, WhereAllWaitInSeveralCallsTheFirstIsShown) {
  EXPECT_EQ(FindCulprit(RanksInBuckets(), StackTree()).why,
            "all ranks wait in all_reduce 58 (12.1 MB): network or library");
}

TEST(FindCulpritTest, WithoutCollectivesTheRankThatIsBehindIsNamed) {
  auto ranks = Ranks();
  ranks[3].worker.step = 1203;
  EXPECT_EQ(FindCulprit(ranks, StackTree()).culprit->rank, Rank{3});
  ranks = Ranks();
  ranks[1].worker.phase = "evaluation";
  const HangVerdict verdict = FindCulprit(ranks, StackTree());
  EXPECT_EQ(verdict.culprit->rank, Rank{1});
  EXPECT_THAT(verdict.why, HasSubstr("is in evaluation, the others are not"));
}

TEST(FindCulpritTest, WhereAllWaitInOneCollectiveItIsTheNetworkOrTheLibrary) {
  EXPECT_EQ(FindCulprit(Ranks(AllReduce(5)), StackTree()).why,
            "all ranks wait in all_reduce 5 (12.1 MB): network or library");
}

TEST(FindCulpritTest, WhereNoRankIsUnlikeTheOthersNoNodeIsToBlame) {
  EXPECT_FALSE(FindCulprit(Ranks(AllReduce(5)), StackTree()).blames);
  EXPECT_FALSE(FindCulprit(Ranks(), StackTree()).blames);
  auto ranks = Ranks(AllReduce(5));
  ranks[1].worker.inside->bytes = 4;
  EXPECT_FALSE(FindCulprit(ranks, StackTree()).blames) << "either call may be the wrong one";
  ranks[1].worker.inside.reset();
  EXPECT_TRUE(FindCulprit(ranks, StackTree()).blames);
}

// A file server that is down holds ranks of many hosts. Seen red, each, when the node of the named
// rank was blamed.
TEST(FindCulpritTest, WhereRanksOfSeveralHostsAreHeldNoNodeIsToBlame) {
  auto ranks = Ranks(AllReduce(5));
  ranks[0].worker.state = ranks[1].worker.state = ProcessState::kDiskWait;
  EXPECT_TRUE(FindCulprit(ranks, StackTree()).blames) << "both are on n1";
  ranks[2].worker.state = ProcessState::kDiskWait;
  EXPECT_FALSE(FindCulprit(ranks, StackTree()).blames);
}

TEST(FindCulpritTest, WhereRanksOfSeveralHostsHaveNotEnteredNoNodeIsToBlame) {
  auto ranks = Ranks(AllReduce(5));
  ranks[2].worker.inside.reset();
  ranks[3].worker.inside.reset();
  EXPECT_TRUE(FindCulprit(ranks, StackTree()).blames) << "both are on n2";
  ranks[1].worker.inside.reset();
  EXPECT_FALSE(FindCulprit(ranks, StackTree()).blames);
}

TEST(FindCulpritTest, WhereRanksOfSeveralHostsAreInTheRarestPhaseNoNodeIsToBlame) {
  auto ranks = Ranks();
  ranks[0].worker.phase = ranks[1].worker.phase = "evaluation";
  EXPECT_TRUE(FindCulprit(ranks, StackTree()).blames);
  ranks[1].worker.phase = "";
  ranks[3].worker.phase = "evaluation";
  EXPECT_FALSE(FindCulprit(ranks, StackTree()).blames);
}

TEST(FindCulpritTest, NobodyIsNamedWhereNothingIsKnown) {
  EXPECT_FALSE(FindCulprit({}, StackTree()).culprit.has_value());
  EXPECT_THAT(FindCulprit(Ranks(), StackTree()).why, HasSubstr("all ranks look alike"));
}

// A Python program: c10d::Reducer calls for rank 3, which reports only what it calls itself. Seen
// red: "rank 3 has not entered all_reduce 5".
TEST(FindCulpritTest, ARankInACollectiveThatItDoesNotReportIsNotTakenForOneInNone) {
  StackTree tree;
  for (const std::uint32_t rank : {0, 1, 2}) {
    AddStack(rank, {"train@t.py", "all_reduce@torch/distributed/distributed_c10d.py"}, &tree);
  }
  AddStack(3, kWaits, &tree);
  auto ranks = Ranks(AllReduce(5));
  ranks[3].worker.inside.reset();
  EXPECT_EQ(FindCulprit(ranks, tree).why,
            "rank 3 on n2 (pid 103) is in c10d::Reducer::finalize_backward, most ranks are in "
            "all_reduce distributed_c10d.py:7: different collectives");
  ranks[1].worker.inside->bytes = 4;
  EXPECT_EQ(FindCulprit(ranks, tree).why,
            "rank 1 on n1 (pid 101) entered all_reduce 5 (4 bytes); rank 0 on n1 (pid 100) entered "
            "all_reduce 5 (12100000 bytes): their calls do not match");
}

}  // namespace hang_verdict_test
}  // namespace ddprun
