// Tests which rank a hang is blamed on if only the stacks decide, and how the verdict shows them.
#include "rendezvous/hangs/stack_culprit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/rendezvous/hangs/still_ranks.h"

namespace ddprun {
namespace stack_culprit_test {

using still_ranks::AddStack;
using still_ranks::AllReduce;
using still_ranks::kWaits;
using still_ranks::Ranks;
using testing::HasSubstr;

TEST(CulpritByStacksTest, TheRankThatIsInNoCollectiveIsNamedAlsoOfTwo) {
  StackTree tree;
  AddStack(0, kWaits, &tree);
  AddStack(1, {"train@t.py", "load@data.py"}, &tree);
  auto ranks = Ranks();
  ranks.resize(2);
  const HangVerdict verdict = FindCulprit(ranks, tree);
  EXPECT_EQ(verdict.culprit->rank, Rank{1});
  EXPECT_EQ(verdict.why,
            "rank 1 on n1 (pid 101) is in no collective: it is in load data.py:7; 1 rank waits in "
            "c10d::Reducer::finalize_backward");
}

TEST(CulpritByStacksTest, OfSeveralOutsideItIsTheOneUnlikeThem) {
  StackTree tree;
  AddStack(0, kWaits, &tree);
  AddStack(1, {"train@t.py", "evaluate@t.py"}, &tree);
  AddStack(2, {"train@t.py", "evaluate@t.py"}, &tree);
  AddStack(3, {"train@t.py", "save@t.py"}, &tree);
  EXPECT_EQ(FindCulprit(Ranks(), tree).culprit->rank, Rank{3});
}

TEST(CulpritByStacksTest, WithoutCollectivesItIsTheRankUnlikeTheMajority) {
  StackTree tree;
  for (const std::uint32_t rank : {0, 1, 3}) AddStack(rank, {"train@t.py", "step@t.py"}, &tree);
  AddStack(2, {"train@t.py", "load@data.py"}, &tree);
  const HangVerdict verdict = FindCulprit(Ranks(), tree);
  EXPECT_EQ(verdict.culprit->rank, Rank{2});
  EXPECT_EQ(verdict.why,
            "rank 2 on n2 (pid 102) is in load data.py:7, most ranks are in step t.py:7");
}

TEST(CulpritByStacksTest, ARankThatIsAheadIsNotWhatTheOthersWaitFor) {
  StackTree tree;
  for (const std::uint32_t rank : {0, 1, 3}) AddStack(rank, {"train@t.py", "step@t.py"}, &tree);
  AddStack(2, {"train@t.py", "finish@t.py"}, &tree);
  auto ranks = Ranks();
  ranks[2].worker.step = 1205;
  EXPECT_EQ(FindCulprit(ranks, tree).culprit->rank, Rank{0});
  EXPECT_THAT(FindCulprit(ranks, tree).why, HasSubstr("has finished step 1204"));
}

TEST(CulpritByStacksTest, HowALibraryWaitsInACollectiveSaysNothing) {
  StackTree tree;
  for (const std::uint32_t rank : {0, 1, 2, 3}) {
    auto stack = kWaits;
    stack.back() = rank == 2 ? "recv" : "send";
    AddStack(rank, stack, &tree);
  }
  EXPECT_EQ(FindCulprit(Ranks(), tree).why,
            "all ranks wait in c10d::Reducer::finalize_backward: network or library");
}

// A cut cable. Seen red when no address was named.
TEST(CulpritByStacksTest, WhereAllWaitThePeersThatDoNotAnswerAreTold) {
  StackTree tree;
  for (const std::uint32_t rank : {0, 1, 2, 3}) {
    AddStack(rank, {"main", "c10d::Wait", "wait"}, &tree);
    tree.Add(RankNote{rank, RankTrouble::kInCall, "main thread: S (waiting)"});
  }
  tree.Add(RankNote{1, RankTrouble::kNoAnswer, "no answer from 10.0.0.7:41234 to 7 repetitions"});
  const std::string addresses = "; rank 1: no answer from 10.0.0.7:41234 to 7 repetitions";
  EXPECT_EQ(FindCulprit(Ranks(AllReduce(5)), tree).why,
            "all ranks wait in all_reduce 5 (12.1 MB): network or library" + addresses);
  EXPECT_EQ(FindCulprit(Ranks(), tree).why,
            "all ranks wait in c10d::Wait: network or library" + addresses);
  for (int port = 1; port <= 5; ++port) {
    tree.Add(RankNote{2, RankTrouble::kNoAnswer, "no answer from n9:" + std::to_string(port)});
  }
  EXPECT_THAT(FindCulprit(Ranks(), tree).why,
              testing::EndsWith("; rank 2: no answer from n9:3; and 2 more"));
}

TEST(CulpritByStacksTest, OfTwoCollectivesBothAreNamed) {
  StackTree tree;
  for (const std::uint32_t rank : {0, 1, 3}) AddStack(rank, kWaits, &tree);
  AddStack(2, {"train@t.py", "barrier@torch/distributed/distributed_c10d.py", "c10d::Work::wait"},
           &tree);
  EXPECT_EQ(FindCulprit(Ranks(), tree).why,
            "rank 2 on n2 (pid 102) is in barrier distributed_c10d.py:7, most ranks are in "
            "c10d::Reducer::finalize_backward: different collectives");
}

TEST(CulpritByStacksTest, WhatProgramsTellOfCollectivesComesFirst) {
  StackTree tree;
  AddStack(0, {"main", "load"}, &tree);
  for (const std::uint32_t rank : {1, 2, 3}) AddStack(rank, {"main", "wait"}, &tree);
  auto ranks = Ranks(AllReduce(9));
  ranks[2].worker.inside.reset();
  EXPECT_EQ(FindCulprit(ranks, tree).culprit->rank, Rank{2});
  EXPECT_THAT(FindCulprit(Ranks(AllReduce(9)), tree).why, HasSubstr("all ranks wait in"));
}

TEST(CulpritByStacksTest, RanksThatAreNotJudgedAreNotNamed) {
  StackTree tree;
  AddStack(0, kWaits, &tree);
  AddStack(7, {"train@t.py", "load@data.py"}, &tree);
  EXPECT_THAT(FindCulprit(Ranks(), tree).why, HasSubstr("all ranks wait in"));
}

// Of two ranks none is the majority. Seen red: "all ranks look alike", and rank 0 was accused.
TEST(CulpritByStacksTest, WithoutAMajorityItIsSaidWhereTheRanksAreAndNobodyIsAccused) {
  auto ranks = Ranks();
  ranks.resize(2);
  StackTree tree;
  AddStack(0, {"train@t.py", "step@t.py"}, &tree);
  AddStack(1, {"train@t.py", "load@data.py", "sleep"}, &tree);
  const HangVerdict verdict = FindCulprit(ranks, tree);
  EXPECT_EQ(
      verdict.why,
      "the ranks are in different places: rank 0 on n1 (pid 100) in step t.py:7, rank 1 on n1 "
      "(pid 101) in sleep; their stacks do not tell which one is wrong");
  EXPECT_EQ(verdict.culprit->rank, Rank{0});
  EXPECT_FALSE(verdict.blames);
  StackTree halves;
  for (const std::uint32_t rank : {0, 1}) AddStack(rank, {"train@t.py", "step@t.py"}, &halves);
  for (const std::uint32_t rank : {2, 3}) AddStack(rank, {"train@t.py", "load@t.py"}, &halves);
  EXPECT_THAT(FindCulprit(Ranks(), halves).why,
              HasSubstr("places: ranks 0-1 in step t.py:7, ranks 2-3 in load t.py:7; their"));
}

// Seen red: "all ranks wait in" one of the two, "network or library".
TEST(CulpritByStacksTest, TwoCollectivesWithoutAMajorityAreNotTakenForOne) {
  auto ranks = Ranks();
  ranks.resize(2);
  StackTree tree;
  AddStack(0, kWaits, &tree);
  AddStack(1, {"train@t.py", "barrier@torch/distributed/distributed_c10d.py"}, &tree);
  EXPECT_THAT(FindCulprit(ranks, tree).why,
              HasSubstr("different places: rank 0 on n1 (pid 100) in "
                        "c10d::Reducer::finalize_backward, rank 1 on n1 (pid 101) in barrier"));
}

TEST(CulpritByStacksTest, RanksInOneFunctionLookAlike) {
  auto ranks = Ranks();
  ranks.resize(2);
  StackTree tree;
  for (const std::uint32_t rank : {0, 1}) {
    tree.Add(
        rank, ThreadKind::kMain,
        {{"step", "t.py", rank + 7, "python"}, {rank == 0 ? "read" : "poll", "", 0, "libc.so.6"}});
  }
  EXPECT_EQ(FindCulprit(ranks, tree).why, "all ranks look alike: they are in training");
}

TEST(CulpritByStacksTest, AtMostFourPlacesAreListed) {
  auto ranks = Ranks();
  StackTree tree;
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    if (rank > 3) ranks.push_back({Rank{static_cast<int>(rank)}, "n3", NodeRank{2}, {}});
    AddStack(rank, {"main", std::string(1, static_cast<char>('a' + rank))}, &tree);
  }
  EXPECT_THAT(FindCulprit(ranks, tree).why,
              HasSubstr("rank 3 on n2 (pid 103) in d, others in 2 more"));
}

TEST(CulpritByStacksTest, WhereRanksOfSeveralHostsAreOutsideNoNodeIsToBlame) {
  StackTree tree;
  AddStack(0, kWaits, &tree);
  AddStack(1, kWaits, &tree);
  for (const std::uint32_t rank : {2, 3}) AddStack(rank, {"train@t.py", "load@data.py"}, &tree);
  EXPECT_TRUE(FindCulprit(Ranks(), tree).blames);
  StackTree both;
  for (const std::uint32_t rank : {0, 3}) AddStack(rank, kWaits, &both);
  for (const std::uint32_t rank : {1, 2}) AddStack(rank, {"train@t.py", "load@data.py"}, &both);
  EXPECT_FALSE(FindCulprit(Ranks(), both).blames);
}

TEST(CulpritByStacksTest, WhereRanksOfSeveralHostsAreUnlikeMostNoNodeIsToBlame) {
  auto ranks = Ranks();
  ranks.push_back(ranks[3]);
  ranks[4].rank = Rank{4};
  const auto blames = [&ranks](const std::vector<std::uint32_t>& unlike) {
    StackTree tree;
    for (std::uint32_t rank = 0; rank < 5; ++rank) {
      const bool is_one = std::find(unlike.begin(), unlike.end(), rank) != unlike.end();
      AddStack(rank, {"train@t.py", is_one ? "load@data.py" : "step@t.py"}, &tree);
    }
    return FindCulprit(ranks, tree).blames;
  };
  EXPECT_TRUE(blames({0, 1}));
  EXPECT_FALSE(blames({1, 4}));
}

TEST(DescribeStackTest, HasTheInnermostFramesAndWhatTheKernelSays) {
  StackTree tree;
  tree.Add(2, ThreadKind::kMain,
           {{"main", "m.cc", 1, "trainer"},
            {"Trainer::Step()", "trainer.cc", 140, "trainer"},
            {"Dataset::Get(int)", "dataset.cc", 88, "trainer"},
            {"read", "", 0, "libc.so.6"}});
  StillRank rank = Ranks()[2];
  rank.worker.waits_for = "read(/data/shard-0017)";
  rank.worker.state = ProcessState::kDiskWait;
  EXPECT_EQ(DescribeStack(rank, tree),
            "rank 2: main m.cc:1 → Trainer::Step trainer.cc:140 → Dataset::Get dataset.cc:88 → "
            "read(/data/shard-0017) in disk wait (D) since 42.0 s");
  EXPECT_EQ(DescribeStack(Ranks()[0], tree), "");
}

// A Python with symbols. Seen red when the innermost three frames were shown, even frames of the
// interpreter.
TEST(DescribeStackTest, FramesOfTheInterpreterDoNotPushTheProgramsOut) {
  StackTree tree;
  tree.Add(1, ThreadKind::kMain,
           {{"Py_RunMain", "main.c", 680, "python3.11"},
            {"<module>", "w3.py", 12, "python"},
            {"_PyEval_EvalFrameDefault", "ceval.c", 5, "libpython3.11.so.1.0"},
            {"wait_in_collective", "w3.py", 4, "python"},
            {"time_sleep", "timemodule.c", 383, "python3.11"},
            {"pysleep", "timemodule.c", 2159, "python3.11"},
            {"clock_nanosleep", "", 0, "libc.so.6"}});
  EXPECT_EQ(
      DescribeStack(Ranks()[1], tree),
      "rank 1: <module> w3.py:12 → wait_in_collective w3.py:4 → clock_nanosleep since 42.0 s");
  const auto frames = TopFrames(tree, Rank{1});
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].function, "clock_nanosleep");
  EXPECT_EQ(frames[1].function, "wait_in_collective");
}

// A program without symbols.
TEST(DescribeStackTest, WhereNoFrameSaysWhatTheProgramDoesTheInnermostAreShown) {
  StackTree tree;
  tree.Add(1, ThreadKind::kMain, {{"", "", 0, "train"}, {"read", "", 0, "libc.so.6"}});
  EXPECT_EQ(DescribeStack(Ranks()[1], tree), "rank 1: ?? in train → read since 42.0 s");
}

TEST(TopFramesTest, AreTheInnermostOnesAndBounded) {
  StackTree tree;
  AddStack(3, {"a", "b", "c", "d", "e", "f", std::string(400, 'x')}, &tree);
  const auto frames = TopFrames(tree, Rank{3});
  ASSERT_EQ(frames.size(), kMaxCauseFrames);
  EXPECT_EQ(frames[0].function, std::string(kMaxCauseNameBytes, 'x'));
  EXPECT_EQ(frames[4].function, "c");
}

// launcher/python/_ddprun_state/collectives.py. Seen red when the frame was shown.
TEST(DescribeStackTest, TheFrameOfTheModuleThatRecordsCollectivesIsLeftOut) {
  StackTree tree;
  AddStack(1,
           {"main@t.py", "evaluate@t.py", "wrapped.<locals>.ddprun_recorded@collectives.py",
            "all_reduce@torch/distributed/distributed_c10d.py"},
           &tree);
  EXPECT_EQ(
      DescribeStack(Ranks()[1], tree),
      "rank 1: main t.py:7 → evaluate t.py:7 → all_reduce distributed_c10d.py:7 since 42.0 s");
}

}  // namespace stack_culprit_test
}  // namespace ddprun
