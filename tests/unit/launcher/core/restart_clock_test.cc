// RestartClock: which phases a restart has, and how long each took.
#include "launcher/core/restart_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace ddprun {
namespace restart_clock_test {

using std::chrono::milliseconds;

constexpr LocalRank kA{0};
constexpr LocalRank kB{1};

TimePoint At(int ms) { return TimePoint(milliseconds(ms)); }

// "stop 2, round 3, ...": each phase and its milliseconds.
std::string Show(const RestartTimes& times) {
  std::string text;
  for (const PhaseTime& phase : times.phases) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", phase.name, " ", phase.microseconds / 1000);
  }
  return text;
}

// Two workers. Generation 0 ended at 0 ms, and generation 1 starts.
RestartClock Restarting() {
  RestartClock clock(2);
  clock.GenerationStarted(Generation{0}, At(-100));
  clock.WorkersSpawned(0, At(-99));
  clock.GenerationEnded(At(0));
  clock.NoWorkerLeft(At(2));
  clock.GenerationStarted(Generation{1}, At(5));
  clock.WorkersSpawned(2, At(9));
  return clock;
}

TEST(RestartClockTest, MeasuresEachPhaseUntilTheLastWorkerHasMadeAStep) {
  RestartClock clock = Restarting();
  clock.PhaseBegan(kA, "init", At(10));
  clock.PhaseBegan(kB, "init", At(14));
  clock.PhaseBegan(kA, "ready", At(20));
  clock.PhaseBegan(kB, "ready", At(21));
  clock.PhaseBegan(kA, "restore", At(22));
  clock.PhaseBegan(kB, "restore", At(23));
  clock.PhaseBegan(kA, "training", At(30));
  clock.PhaseBegan(kB, "training", At(31));
  clock.StepMade(kA, At(40));
  EXPECT_EQ(clock.Take(), std::nullopt);
  clock.StepMade(kA, At(41));
  clock.StepMade(kB, At(45));
  const auto times = clock.Take();
  ASSERT_TRUE(times);
  EXPECT_EQ(Show(*times),
            "stop 2, round 3, spawn 4, load 5, process_group 7, setup 2, restore 8, training 14");
  EXPECT_EQ(times->generation, Generation{1});
  EXPECT_TRUE(times->to_first_step);
  EXPECT_EQ(times->total_microseconds(), 45'000);
  EXPECT_EQ(clock.Take(), std::nullopt) << "said once";
  EXPECT_EQ(
      Describe(*times, 2),
      "restart into generation 1, to the first step: 45.0 ms (stop 2.0, round 3.0, spawn 4.0, "
      "load 5.0, process_group 7.0, setup 2.0, restore 8.0, training 14.0), 2 of 2 workers "
      "from standbys");
}

TEST(RestartClockTest, TheFirstGenerationIsNoRestart) {
  RestartClock clock(1);
  clock.GenerationStarted(Generation{0}, At(0));
  clock.WorkersSpawned(0, At(1));
  clock.PhaseBegan(kA, "init", At(2));
  clock.StepMade(kA, At(3));
  clock.Close();
  EXPECT_EQ(clock.Take(), std::nullopt);
}

TEST(RestartClockTest, WhatIsCutShortIsToldAsFarAsItCame) {
  RestartClock clock = Restarting();
  clock.PhaseBegan(kA, "init", At(10));
  clock.PhaseBegan(kA, "ready", At(20));
  clock.GenerationEnded(At(500));
  const auto times = clock.Take();
  ASSERT_TRUE(times);
  EXPECT_FALSE(times->to_first_step);
  EXPECT_EQ(Show(*times), "stop 2, round 3, spawn 4, load 1, process_group 10");
}

TEST(RestartClockTest, TheLastWorkersStartCountsHoweverFarTheOthersAre) {
  RestartClock clock(2);
  clock.GenerationEnded(At(0));
  clock.NoWorkerLeft(At(2));
  clock.GenerationStarted(Generation{1}, At(5));
  clock.PhaseBegan(kA, "init", At(7));
  clock.PhaseBegan(kA, "ready", At(8));
  clock.WorkersSpawned(0, At(9));
  clock.PhaseBegan(kB, "init", At(14));
  clock.PhaseBegan(kB, "ready", At(21));
  clock.StepMade(kA, At(30));
  clock.StepMade(kB, At(31));
  EXPECT_EQ(Show(*clock.Take()), "stop 2, round 3, spawn 4, load 5, process_group 7, setup 10");
}

TEST(RestartClockTest, AProgramThatTellsNothingHasThePhasesOfTheAgent) {
  RestartClock clock = Restarting();
  clock.Close();
  const auto times = clock.Take();
  ASSERT_TRUE(times);
  EXPECT_EQ(Show(*times), "stop 2, round 3, spawn 4");
}

TEST(RestartClockTest, AnEndWithoutANewStartIsNoRestart) {
  RestartClock clock(2);
  clock.GenerationEnded(At(0));
  clock.NoWorkerLeft(At(1));
  clock.Close();
  EXPECT_EQ(clock.Take(), std::nullopt);
}

TEST(RestartClockTest, PhasesOfAProgramThatTellsNoStepAreNoPartOfTheRestart) {
  RestartClock clock = Restarting();
  for (const LocalRank worker : {kA, kB}) clock.PhaseBegan(worker, "eval", At(3'600'000));
  for (const LocalRank worker : {kA, kB}) clock.PhaseBegan(worker, "train", At(3'700'000));
  clock.GenerationEnded(At(7'200'000));
  EXPECT_EQ(Show(*clock.Take()), "stop 2, round 3, spawn 4");
}

TEST(RestartClockTest, APhaseThatAWorkerIsInAgainIsMeasuredFromTheFirstTime) {
  RestartClock clock = Restarting();
  clock.PhaseBegan(kA, "eval", At(20));
  clock.PhaseBegan(kA, "train", At(30));
  clock.PhaseBegan(kA, "eval", At(40));
  clock.PhaseBegan(kA, "train", At(50));
  clock.PhaseBegan(kB, "eval", At(60));
  clock.PhaseBegan(kB, "train", At(70));
  clock.PhaseBegan(kB, "train", At(75));
  clock.StepMade(kA, At(80));
  clock.StepMade(kB, At(90));
  EXPECT_EQ(Show(*clock.Take()), "stop 2, round 3, spawn 4, load 11, eval 50, train 20");
}

TEST(RestartClockTest, AProgramsOwnNamesAreNotTakenForOurs) {
  RestartClock clock = Restarting();
  for (const LocalRank worker : {kA, kB}) clock.PhaseBegan(worker, "load", At(20));
  for (const LocalRank worker : {kA, kB}) clock.PhaseBegan(worker, "setup", At(30));
  for (const LocalRank worker : {kA, kB}) clock.StepMade(worker, At(50));
  EXPECT_EQ(Show(*clock.Take()),
            "stop 2, round 3, spawn 4, load 11, program_load 10, program_setup 20");
}

TEST(RestartClockTest, WhatComesAfterTheFirstStepOrBeyondMeasureChangesNothing) {
  RestartClock clock = Restarting();
  for (int i = 0; i < 100; ++i) clock.PhaseBegan(kA, absl::StrCat("p", i), At(10 + i));
  clock.StepMade(kA, At(200));
  clock.PhaseBegan(kA, "evaluating", At(201));
  clock.StepMade(kB, At(300));
  const auto times = clock.Take();
  ASSERT_TRUE(times);
  EXPECT_EQ(times->phases.size(), 16U);
  EXPECT_EQ(times->total_microseconds(), 300'000);
}

}  // namespace restart_clock_test
}  // namespace ddprun
