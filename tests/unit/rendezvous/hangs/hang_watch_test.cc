// Tests HangWatch: when a standstill begins, and how long it may last.
#include "rendezvous/hangs/hang_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace ddprun {
namespace hang_watch_test {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class HangWatchTest : public testing::Test {
 protected:
  HangWatchTest() { watch_.Begin(now_); }

  // `still`: how long no rank of the only node has moved.
  bool Tell(Duration still, std::vector<std::string> phases = {""}, bool excused = false) {
    NodeProgress progress{2, still, std::move(phases), excused};
    return Tell(std::move(progress));
  }
  bool Tell(NodeProgress progress) { return watch_.Take(AgentId{1}, progress, now_, &intervals_); }
  // A second of training, with moves of the ranks all the time.
  void Train() {
    now_ += seconds(1);
    watch_.StepSeen();
    Tell(Duration{});
  }
  Duration Limit(std::optional<Duration> fixed = std::nullopt) {
    return watch_.Limit({true, fixed, minutes(10)}, intervals_);
  }

  HangWatch watch_;
  PhaseIntervals intervals_;
  TimePoint now_{std::chrono::hours(1)};
};

TEST_F(HangWatchTest, ANodeThatTellsNothingIsNotJudged) {
  EXPECT_FALSE(watch_.judges());
  Tell(NodeProgress{});
  EXPECT_FALSE(watch_.judges());
  Tell(Duration{});
  EXPECT_TRUE(watch_.judges());
  Tell(NodeProgress{});  // all workers of the node have ended
  EXPECT_FALSE(watch_.judges());
}

TEST_F(HangWatchTest, ANodeOfSilentRanksAloneIsKnownAndNotJudged) {
  NodeProgress silent;
  silent.silent_workers.resize(2);
  Tell(silent);
  EXPECT_FALSE(watch_.judges());
  ASSERT_NE(watch_.Find(AgentId{1}), nullptr);
  EXPECT_EQ(watch_.Find(AgentId{1})->silent_workers.size(), 2u);
  Tell(NodeProgress{});
  EXPECT_EQ(watch_.Find(AgentId{1}), nullptr);
}

TEST_F(HangWatchTest, AnExcusedSilentRankStopsTheClockUntilTheFirstStep) {
  NodeProgress starved;
  starved.silent_workers.resize(1);
  starved.silent_excused = true;
  now_ += seconds(50);
  Tell(starved);
  EXPECT_EQ(watch_.last_moved(), now_);
  watch_.StepSeen();
  now_ += seconds(50);
  Tell(starved);
  EXPECT_EQ(watch_.last_moved(), now_ - seconds(50)) << "it is a program that never tells";
}

// Otherwise the verdict would name the rank. Seen red when a silent rank excused nothing after the
// first step.
TEST_F(HangWatchTest, ADebuggerOfASilentRankStopsTheClockAtAnyTime) {
  for (int i = 0; i < 3; ++i) Train();
  NodeProgress debugged{2, seconds(50), {""}};
  debugged.silent_workers.resize(1);
  debugged.silent_workers[0].state = ProcessState::kTraced;
  debugged.silent_excused = true;
  now_ += seconds(50);
  Tell(debugged);
  EXPECT_EQ(watch_.last_moved(), now_);
  Tell(Duration{});
  EXPECT_EQ(Limit(), seconds(30)) << "and nothing is learned from it";
}

TEST_F(HangWatchTest, AnIntervalInWhichASilentRankWasStoppedIsNotLearned) {
  for (int i = 0; i < 3; ++i) Train();
  NodeProgress stopped{2, seconds(20), {""}};
  stopped.silent_workers.resize(1);
  stopped.silent_workers[0].state = ProcessState::kStopped;
  now_ += seconds(20);
  Tell(stopped);
  Tell(Duration{});
  EXPECT_EQ(Limit(), seconds(30));
}

TEST_F(HangWatchTest, BeforeTheFirstStepTheLimitIsThatOfTheStart) {
  Tell(Duration{}, {"init"});
  EXPECT_EQ(Limit(), minutes(10));
  EXPECT_EQ(Limit(seconds(1)), minutes(10)) << "--hang-timeout is for training";
  watch_.StepSeen();
  EXPECT_EQ(Limit(seconds(1)), seconds(1));
}

TEST_F(HangWatchTest, TheLimitIsFiveTimesTheLongestIntervalAndAtLeastThirtySeconds) {
  for (int i = 0; i < 3; ++i) Train();
  EXPECT_EQ(Limit(), seconds(30));
  now_ += seconds(8);
  Tell(Duration{});
  EXPECT_EQ(Limit(), seconds(40));
  for (int i = 0; i < 100; ++i) Train();
  EXPECT_EQ(Limit(), seconds(40)) << "the longest counts, however long ago";
}

TEST_F(HangWatchTest, APhaseThatWasNeverSeenHasTheLimitOfTheStart) {
  for (int i = 0; i < 3; ++i) Train();
  now_ += seconds(1);
  Tell(Duration{}, {"evaluation"});
  EXPECT_EQ(Limit(), minutes(10));
  now_ += seconds(50);
  Tell(seconds(50), {"evaluation"});
  EXPECT_EQ(Limit(), minutes(10));
  Tell(Duration{}, {""});  // the standstill is over
  EXPECT_EQ(Limit(), seconds(30)) << "the evaluation says nothing about training";
  Tell(Duration{}, {"evaluation"});
  EXPECT_GE(Limit(), seconds(245));
}

// Seen red when only phases present at a heartbeat counted as seen.
TEST_F(HangWatchTest, APhaseThatBeganAndEndedBetweenTwoHeartbeatsWasSeen) {
  for (int i = 0; i < 3; ++i) Train();
  NodeProgress passed{2, Duration{}, {""}};
  passed.phases_passed = {"save"};
  now_ += seconds(1);
  Tell(passed);
  EXPECT_EQ(intervals_.Longest("save"), seconds(1));
  Tell(Duration{}, {"save"});
  EXPECT_EQ(Limit(), seconds(30));
}

// Each node reports its own phases; another node moved a moment before.
TEST_F(HangWatchTest, APhaseThatPassedOnOneNodeOfManyWasSeen) {
  for (int i = 0; i < 3; ++i) Train();
  NodeProgress passed{2, Duration{}, {""}};
  passed.phases_passed = {"save"};
  now_ += seconds(1);
  watch_.Take(AgentId{2}, NodeProgress{2, Duration{}, {""}}, now_, &intervals_);
  Tell(passed);
  EXPECT_EQ(intervals_.Longest("save"), Duration{});
}

TEST_F(HangWatchTest, APhaseThatPassedBeforeTheFirstStepOrInADebuggerIsNotLearned) {
  NodeProgress passed{2, Duration{}, {""}};
  passed.phases_passed = {"save"};
  Tell(passed);
  watch_.StepSeen();
  passed.excused = true;
  now_ += seconds(1);
  Tell(passed);
  EXPECT_EQ(intervals_.Longest("save"), std::nullopt);
}

TEST_F(HangWatchTest, WhereOneRankDoesSomethingElseTheOthersWaitForItAndAreNotSlow) {
  for (int i = 0; i < 3; ++i) Train();
  now_ += seconds(1);
  Tell(Duration{}, {"", "checkpoint"});
  now_ += seconds(100);
  Tell(Duration{}, {""});
  EXPECT_EQ(Limit(), seconds(30));
  EXPECT_EQ(intervals_.Longest("checkpoint"), seconds(100));
}

// Each standstill below is longer than the longest seen one, and none shows the program's own pace.
TEST_F(HangWatchTest, AnIntervalThatDidNotEndByItselfIsNotLearned) {
  for (int i = 0; i < 3; ++i) Train();
  now_ += seconds(20);
  Tell(seconds(19), {""}, /*excused=*/true);  // a debugger
  now_ += seconds(1);
  Tell(Duration{});
  EXPECT_EQ(Limit(), seconds(30));

  NodeProgress stopped{2, seconds(20), {""}};
  stopped.still_workers.resize(1);
  stopped.still_workers[0].state = ProcessState::kStopped;
  now_ += seconds(20);
  Tell(stopped);
  Tell(Duration{});
  EXPECT_EQ(Limit(), seconds(30));

  now_ += seconds(60);
  watch_.Call();
  EXPECT_TRUE(Tell(Duration{})) << "the hang that was called is over";
  EXPECT_EQ(Limit(), seconds(30));
  EXPECT_FALSE(watch_.called());
}

// A starved rank: it had a CPU for 40 of 100 s.
TEST_F(HangWatchTest, OfTimeThatIsExcusedTheRestCountsAndIsNotLearned) {
  for (int i = 0; i < 3; ++i) Train();
  now_ += seconds(100);
  Tell(seconds(40), {""}, /*excused=*/true);
  EXPECT_EQ(watch_.last_moved(), now_ - seconds(40));
  now_ += seconds(1);
  Tell(Duration{});
  EXPECT_EQ(Limit(), seconds(30));
}

// Seen red when every newer `last_moved` counted as a move.
TEST_F(HangWatchTest, AHangThatWasCalledIsNotOverBecauseARankIsStarved) {
  for (int i = 0; i < 3; ++i) Train();
  now_ += seconds(100);
  Tell(seconds(100));
  watch_.Call();
  for (int i = 0; i < 3; ++i) {
    now_ += seconds(50);
    EXPECT_FALSE(Tell(seconds(80), {""}, /*excused=*/true));
  }
  EXPECT_TRUE(watch_.called());
  EXPECT_TRUE(Tell(Duration{}));
}

// The rendezvous is busy. Seen red when `still` alone counted as a move.
TEST_F(HangWatchTest, AHeartbeatThatIsHandledLateTellsOfNoMove) {
  for (int i = 0; i < 3; ++i) Train();
  const auto tell = [&](Duration still, std::uint64_t moves) {
    NodeProgress progress{2, still, {""}};
    progress.moves = moves;
    return Tell(progress);
  };
  tell(Duration{}, 7);
  const TimePoint moved = now_;
  now_ += seconds(50);
  tell(seconds(50), 7);
  watch_.Call();
  now_ += seconds(10);
  EXPECT_FALSE(tell(seconds(55), 7)) << "5 s late";
  EXPECT_EQ(watch_.last_moved(), moved);
  EXPECT_TRUE(watch_.called());
  EXPECT_TRUE(tell(seconds(3), 8));
  EXPECT_EQ(watch_.last_moved(), now_ - seconds(3));
}

TEST_F(HangWatchTest, TheRankThatMovedLastCounts) {
  const NodeProgress still{2, seconds(50), {""}};
  const NodeProgress moves{2, seconds(1), {""}};
  now_ += seconds(60);
  watch_.Take(AgentId{1}, still, now_, &intervals_);
  watch_.Take(AgentId{2}, moves, now_, &intervals_);
  EXPECT_EQ(watch_.last_moved(), now_ - seconds(1));
  watch_.Take(AgentId{1}, still, now_, &intervals_);
  EXPECT_EQ(watch_.last_moved(), now_ - seconds(1));
}

// Seen red when the first 64 phases were kept for ever: each later phase had the limit of the
// start.
TEST(PhaseIntervalsTest, OfTooManyPhasesTheOneThatWasLearnedLongestAgoIsForgotten) {
  std::map<std::string, Duration> record;
  for (int i = 0; i < 64; ++i) record["phase " + std::to_string(i)] = seconds(2);
  PhaseIntervals intervals(record);
  for (int i = 0; i < 200; ++i) {
    intervals.Learn("", seconds(1));
    intervals.Learn("epoch " + std::to_string(i), seconds(1));
  }
  EXPECT_EQ(intervals.Longest(""), seconds(1)) << "it is learned again and again";
  EXPECT_EQ(intervals.Longest("epoch 199"), seconds(1));
  EXPECT_EQ(intervals.Longest("epoch 0"), std::nullopt);
  EXPECT_EQ(intervals.Longest("phase 0"), std::nullopt);
}

TEST(PhaseIntervalsTest, AProgramThatMakesUpPhasesDoesNotTakeMemoryForEver) {
  PhaseIntervals intervals;
  for (int i = 0; i < 1000; ++i) intervals.Learn("phase " + std::to_string(i), seconds(1));
  EXPECT_EQ(intervals.longest().size(), PhaseIntervals::kMaxPhases);
  intervals.Learn("phase 999", seconds(7));
  EXPECT_EQ(intervals.Longest("phase 999"), seconds(7));
}

}  // namespace hang_watch_test
}  // namespace ddprun
