// Tests FindCulprit(): which rank a hang is blamed on.
#include "rendezvous/hangs/hang_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/hangs/stack_culprit.h"

namespace ddprun {
namespace hang_verdict_test {

using std::chrono::seconds;
using testing::HasSubstr;

CollectiveCall AllReduce(std::int64_t sequence, std::int64_t bytes = 12'100'000) {
  return {"default", sequence, "all_reduce", bytes};
}

// Four ranks on two nodes, all in the same call.
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

// Four ranks that average three buckets at the same time, in the calls 58 to 60.
std::vector<StillRank> RanksInBuckets() {
  auto ranks = Ranks(AllReduce(60));
  for (StillRank& rank : ranks) rank.worker.earlier = {AllReduce(58), AllReduce(59)};
  return ranks;
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

// ---- by stacks ----

// Each frame is FUNCTION, or FUNCTION@FILE for a Python frame.
void AddStack(std::uint32_t rank, const std::vector<std::string>& functions, StackTree* tree) {
  std::vector<StackFrame> frames;
  for (const std::string& function : functions) {
    const auto at = function.find('@');
    frames.push_back(at == std::string::npos ? StackFrame{function, "", 0, "libtrain.so"}
                                             : StackFrame{function.substr(0, at),
                                                          function.substr(at + 1), 7, "python"});
  }
  tree->Add(rank, ThreadKind::kMain, frames);
}

const std::vector<std::string> kWaits = {"train@t.py", "backward@_tensor.py",
                                         "c10d::Reducer::finalize_backward()", "wait"};

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

// ---- silent ranks ----

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

TEST(FindCulpritTest, WhereNoRankIsUnlikeTheOthersNoNodeIsToBlame) {
  EXPECT_FALSE(FindCulprit(Ranks(AllReduce(5)), StackTree()).blames);
  EXPECT_FALSE(FindCulprit(Ranks(), StackTree()).blames);
  auto ranks = Ranks(AllReduce(5));
  ranks[1].worker.inside->bytes = 4;
  EXPECT_FALSE(FindCulprit(ranks, StackTree()).blames) << "either call may be the wrong one";
  ranks[1].worker.inside.reset();
  EXPECT_TRUE(FindCulprit(ranks, StackTree()).blames);
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

TEST(FindCulpritTest, NobodyIsNamedWhereNothingIsKnown) {
  EXPECT_FALSE(FindCulprit({}, StackTree()).culprit.has_value());
  EXPECT_THAT(FindCulprit(Ranks(), StackTree()).why, HasSubstr("all ranks look alike"));
}

}  // namespace hang_verdict_test
}  // namespace ddprun
