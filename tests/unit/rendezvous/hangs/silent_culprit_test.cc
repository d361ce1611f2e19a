// Tests when a rank that has reported nothing is blamed for a hang.
#include "rendezvous/hangs/silent_culprit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/rendezvous/hangs/still_ranks.h"

namespace ddprun {
namespace silent_culprit_test {

using std::chrono::seconds;
using still_ranks::AddStack;
using still_ranks::AllReduce;
using still_ranks::kWaits;
using still_ranks::Ranks;
using testing::HasSubstr;

// Four ranks: those in `silent` have reported nothing, the others are in `phase`.
std::vector<StillRank> RanksBeforeAStep(const std::string& phase, const std::vector<int>& silent) {
  auto ranks = Ranks();
  for (StillRank& rank : ranks) {
    rank.worker.step.reset();
    rank.worker.phase = phase;
  }
  for (const int number : silent) {
    ranks[number].silent = true;
    ranks[number].worker.phase = "";
    ranks[number].worker.still = seconds(45);
  }
  return ranks;
}

TEST(SilentCulpritTest, ARankThatDoesNotReachInitIsNamedWithTheOthersThatWaitThere) {
  StackTree tree;
  for (const std::uint32_t rank : {0, 1, 2}) AddStack(rank, {"main", "c10d::wait"}, &tree);
  AddStack(3, {"main", "Dataset::Open"}, &tree);
  const HangVerdict verdict = FindCulprit(RanksBeforeAStep("init", {3}), tree);
  EXPECT_EQ(verdict.culprit->rank, Rank{3});
  EXPECT_TRUE(verdict.blames);
  EXPECT_EQ(verdict.why,
            "3 of 4 ranks are in init(); missing 3 on n2: rank 3 (pid 103) started 45.0 s ago, now "
            "in Dataset::Open");
}

TEST(SilentCulpritTest, AllThatAreMissingAreCountedAndThoseOfOneNodeListed) {
  EXPECT_EQ(FindCulprit(RanksBeforeAStep("init", {1, 2, 3}), StackTree()).why,
            "1 of 4 ranks is in init(); missing 1 on n1 and 2 on other nodes: rank 1 (pid 101) "
            "started 45.0 s ago");
  EXPECT_THAT(FindCulprit(RanksBeforeAStep("init", {2, 3}), StackTree()).why,
              HasSubstr("missing 2-3 on n2: rank 2"));
}

TEST(SilentCulpritTest, OfSeveralItIsTheOneUnlikeThem) {
  StackTree tree;
  for (const std::uint32_t rank : {1, 2}) AddStack(rank, {"main", "Load"}, &tree);
  AddStack(3, {"main", "Lock"}, &tree);
  EXPECT_EQ(FindCulprit(RanksBeforeAStep("init", {1, 2, 3}), tree).culprit->rank, Rank{3});
}

TEST(SilentCulpritTest, WithoutItsStackItsSystemCallIsTold) {
  auto ranks = RanksBeforeAStep("init", {3});
  ranks[3].worker.waits_for = "read(/data/x)";
  ranks[3].worker.busy = true;
  const HangVerdict verdict = FindCulprit(ranks, StackTree());
  EXPECT_THAT(verdict.why, HasSubstr("ago, now in read(/data/x)"));
  EXPECT_TRUE(verdict.busy);
}

TEST(SilentCulpritTest, ASilentRankThatIsStoppedIsNamedForThat) {
  auto ranks = RanksBeforeAStep("init", {1, 3});
  ranks[3].worker.state = ProcessState::kStopped;
  EXPECT_THAT(FindCulprit(ranks, StackTree()).why,
              HasSubstr("rank 3 on n2 (pid 103) is stopped by a signal"));
}

// One rank may report for all. If the others wait in a collective, their stacks decide.
TEST(SilentCulpritTest, WhereNobodyIsInInitStacksComeFirst) {
  StackTree tree;
  for (const std::uint32_t rank : {1, 2, 3}) AddStack(rank, kWaits, &tree);
  AddStack(0, {"train@t.py", "load@data.py"}, &tree);
  EXPECT_EQ(FindCulprit(RanksBeforeAStep("", {1, 2, 3}), tree).culprit->rank, Rank{0});
}

TEST(SilentCulpritTest, WhereStacksSayNothingTheSilentRankIsNamed) {
  const HangVerdict verdict = FindCulprit(RanksBeforeAStep("", {2, 3}), StackTree());
  EXPECT_EQ(verdict.culprit->rank, Rank{2});
  EXPECT_EQ(verdict.why,
            "rank 2 on n2 (pid 102) (and 1 other rank) has told nothing: it started 45.0 s ago; 2 "
            "of 4 ranks have told how far they are");
}

// Only rank 0 reports its steps: `if rank == 0`. Seen red when the other ranks were ignored.
TEST(SilentCulpritTest, OneOfAProgramThatNeverTellsIsNamedWhereASignalStopsIt) {
  auto ranks = RanksBeforeAStep("", {1, 2, 3});
  ranks[0].worker.step = 7;
  ranks[2].worker.state = ProcessState::kStopped;
  EXPECT_EQ(FindCulprit(ranks, StackTree(), /*silent_tell=*/false).why,
            "rank 2 on n2 (pid 102) is stopped by a signal (SIGCONT continues it)")
      << "since when, nobody knows";
}

// Seen red when rank 0, the only rank with a step, counted as ahead of the others.
TEST(SilentCulpritTest, OneOfAProgramThatNeverTellsIsNamedByItsStack) {
  auto ranks = RanksBeforeAStep("", {1, 2, 3});
  ranks[0].worker.step = 7;
  StackTree tree;
  for (const std::uint32_t rank : {0, 1, 3}) AddStack(rank, kWaits, &tree);
  AddStack(2, {"train@t.py", "load@data.py"}, &tree);
  EXPECT_EQ(FindCulprit(ranks, tree, /*silent_tell=*/false).culprit->rank, Rank{2});
  StackTree other;
  for (const std::uint32_t rank : {1, 2, 3}) AddStack(rank, kWaits, &other);
  AddStack(0, {"train@t.py", "load@data.py"}, &other);
  EXPECT_EQ(FindCulprit(ranks, other, /*silent_tell=*/false).culprit->rank, Rank{0});
  StackTree ahead;
  for (const std::uint32_t rank : {1, 2, 3}) AddStack(rank, {"train@t.py", "step@t.py"}, &ahead);
  AddStack(0, {"train@t.py", "load@data.py"}, &ahead);
  EXPECT_THAT(FindCulprit(ranks, ahead, /*silent_tell=*/false).why, HasSubstr("rank 0 on n1 (pid"));
}

// A parameter server is never in a collective.
TEST(SilentCulpritTest, ARankThatTellsComesBeforeOneOfAProgramThatNeverDoes) {
  StackTree tree;
  for (const std::uint32_t rank : {2, 3}) AddStack(rank, kWaits, &tree);
  AddStack(0, {"serve@s.py", "accept@s.py"}, &tree);
  AddStack(1, {"train@t.py", "load@data.py"}, &tree);
  EXPECT_EQ(FindCulprit(RanksBeforeAStep("", {0}), tree, false).culprit->rank, Rank{1});
}

TEST(SilentCulpritTest, ThatAProgramNeverTellsSaysNothingAgainstIt) {
  auto ranks = RanksBeforeAStep("init", {0});
  for (int i = 1; i < 4; ++i) ranks[i].worker.inside = AllReduce(7);
  HangVerdict verdict = FindCulprit(ranks, StackTree(), /*silent_tell=*/false);
  EXPECT_THAT(verdict.why, HasSubstr("all ranks wait in all_reduce 7"));
  for (StillRank& rank : ranks) rank.worker.inside.reset();
  verdict = FindCulprit(ranks, StackTree(), /*silent_tell=*/false);
  EXPECT_THAT(verdict.why, HasSubstr("all ranks look alike"));
}

TEST(SilentCulpritTest, WhereRanksOfSeveralHostsAreMissingNoNodeIsToBlame) {
  for (const char* const phase : {"init", ""}) {
    EXPECT_TRUE(FindCulprit(RanksBeforeAStep(phase, {2, 3}), StackTree()).blames);
    EXPECT_FALSE(FindCulprit(RanksBeforeAStep(phase, {1, 3}), StackTree()).blames);
  }
}

}  // namespace silent_culprit_test
}  // namespace ddprun
