#include "rendezvous/machine/states/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace ddprun {
namespace timeline_test {

SavedState State(int generation, std::int64_t step, std::uint32_t requeue_number = 0) {
  return {requeue_number, Generation{generation}, step, Tier::kMemory};
}

ResumePoint Point(int generation, std::int64_t step, std::uint32_t requeue_number = 0) {
  return {requeue_number, Generation{generation}, step};
}

TEST(TimelineTest, WhatAGenerationDidPastItsSuccessorsResumeIsDead) {
  Timeline timeline;
  timeline.Resume(Point(1, 500));
  EXPECT_TRUE(timeline.Holds(State(0, 500), 0, Generation{1}));
  EXPECT_FALSE(timeline.Holds(State(0, 501), 0, Generation{1}));
  EXPECT_TRUE(timeline.Holds(State(1, 501), 0, Generation{1}));
}

TEST(TimelineTest, ASuccessorsSuccessorCountsToo) {
  Timeline timeline;
  timeline.Resume(Point(1, 500));
  timeline.Resume(Point(2, 400));
  timeline.Resume(Point(3, 900));
  EXPECT_FALSE(timeline.Holds(State(0, 450), 0, Generation{3}));
  EXPECT_FALSE(timeline.Holds(State(1, 450), 0, Generation{3}));
  EXPECT_TRUE(timeline.Holds(State(1, 400), 0, Generation{3}));
  EXPECT_TRUE(timeline.Holds(State(2, 900), 0, Generation{3}));
  EXPECT_FALSE(timeline.Holds(State(2, 901), 0, Generation{3}));
}

TEST(TimelineTest, AnEarlierEpochIsBeforeEveryGenerationOfALaterOne) {
  Timeline timeline;
  timeline.Resume(Point(7, 300, 0));
  timeline.Resume(Point(0, 600, 1));
  EXPECT_FALSE(timeline.Holds(State(9, 601, 0), 1, Generation{0}));
  EXPECT_TRUE(timeline.Holds(State(9, 600, 0), 1, Generation{0}));
  EXPECT_FALSE(timeline.Holds(State(6, 301, 0), 1, Generation{0}));
}

// A state of an earlier run with the same job name, or of a file that names no generation.
TEST(TimelineTest, AGenerationThatThisRunHasNotHadIsBeforeAll) {
  Timeline timeline;
  EXPECT_TRUE(timeline.Holds(State(8, 100), 0, Generation{-1}));
  timeline.Resume(Point(0, 40));
  for (const SavedState& foreign : {State(8, 41), State(-1, 41), State(0, 41, 5)}) {
    EXPECT_FALSE(timeline.Holds(foreign, 0, Generation{3}));
  }
  EXPECT_TRUE(timeline.Holds(State(8, 40), 0, Generation{3}));
  EXPECT_TRUE(timeline.Holds(State(0, 41), 0, Generation{3}));
}

TEST(TimelineTest, ToSayItAgainChangesNothing) {
  Timeline timeline;
  timeline.Resume(Point(1, 500));
  timeline.Resume(Point(2, 700));
  const std::vector<ResumePoint> once = timeline.points();
  timeline.Resume(Point(2, 700));
  EXPECT_EQ(timeline.points(), once);
  EXPECT_EQ(Timeline(once).points(), once);
}

// Compares with a simple version that keeps every point and checks each.
TEST(TimelineTest, AgreesWithOneThatForgetsNothing) {
  std::mt19937 random(1);
  const auto draw = [&](int to) { return static_cast<int>(random() % to); };
  int held = 0;
  for (int round = 0; round < 300; ++round) {
    Timeline timeline;
    std::vector<ResumePoint> all;
    const int generations = 1 + draw(40);
    for (int i = 1; i <= generations; ++i) {
      all.push_back(Point(i, draw(100)));
      timeline.Resume(all.back());
    }
    for (int i = 0; i < 50; ++i) {
      const SavedState state = State(draw(generations + 1), draw(100));
      const bool dead = std::any_of(all.begin(), all.end(), [&](const ResumePoint& point) {
        return point.generation > state.generation && point.step < state.step;
      });
      EXPECT_EQ(timeline.Holds(state, 0, Generation{generations}), !dead);
      held += !dead;
    }
  }
  EXPECT_GT(held, 1000);
}

TEST(TimelineTest, StaysSmallAndNeverTakesADeadStateForOneThatIsHeld) {
  Timeline timeline;
  constexpr int kGenerations = 1000;
  for (int i = 1; i <= kGenerations; ++i) timeline.Resume(Point(i, 10 * i));
  EXPECT_EQ(timeline.points().size(), Timeline::kMaxPoints);
  for (int i = 0; i < kGenerations; ++i) {
    EXPECT_FALSE(timeline.Holds(State(i, 10 * (i + 1) + 1), 0, Generation{kGenerations}));
    if (i < kGenerations - 60) continue;
    EXPECT_TRUE(timeline.Holds(State(i, 10 * (i + 1)), 0, Generation{kGenerations}));
  }
}

}  // namespace timeline_test
}  // namespace ddprun
