// When ddprun warns that hangs cannot be detected.
#include "launcher/core/silence_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace silence_watch_test {

using testing::HasSubstr;
using testing::Optional;

constexpr TimePoint kStart{std::chrono::hours(1)};

std::vector<WorkerProgress> Workers(ProgressSource first, ProgressSource second) {
  std::vector<WorkerProgress> workers(2);
  workers[0].source = first;
  workers[1].source = second;
  return workers;
}

std::vector<WorkerProgress> Silent() {
  return Workers(ProgressSource::kNone, ProgressSource::kNone);
}

TEST(SilenceWatchTest, SaysSoAMinuteAfterTheStart) {
  SilenceWatch watch(/*judges_hangs=*/true, /*is_python=*/false);
  EXPECT_EQ(watch.deadline(), std::nullopt);
  watch.Begin(/*of_rank_0=*/true, kStart);
  EXPECT_EQ(watch.deadline(), kStart + std::chrono::seconds(60));
  EXPECT_THAT(watch.Look(Silent()), Optional(HasSubstr("no worker has told a step for 60 s")));
}

TEST(SilenceWatchTest, OfPythonItIsKnownSooner) {
  SilenceWatch watch(/*judges_hangs=*/true, /*is_python=*/true);
  watch.Begin(/*of_rank_0=*/true, kStart);
  EXPECT_EQ(watch.deadline(), kStart + std::chrono::seconds(15));
  EXPECT_THAT(watch.Look(Silent()), Optional(HasSubstr("no worker has told a step for 15 s")));
}

// Seen red when each generation was judged alone: the first one had reported steps for days.
TEST(SilenceWatchTest, OneWorkerThatTellsIsEnough) {
  SilenceWatch watch(/*judges_hangs=*/true, /*is_python=*/false);
  watch.Begin(/*of_rank_0=*/true, kStart);
  EXPECT_EQ(watch.Look(Workers(ProgressSource::kNone, ProgressSource::kMessages)), std::nullopt);
  EXPECT_EQ(watch.deadline(), std::nullopt);
  watch.Begin(/*of_rank_0=*/true, kStart);
  EXPECT_EQ(watch.deadline(), std::nullopt) << "known to tell; loading its states may take longer";
}

// A generation may end before its deadline, and rank 0 may come from another node.
TEST(SilenceWatchTest, WhatAHeartbeatSawIsEnough) {
  SilenceWatch watch(/*judges_hangs=*/true, /*is_python=*/false);
  watch.Begin(/*of_rank_0=*/false, kStart);
  watch.See(Workers(ProgressSource::kPage, ProgressSource::kPage));
  watch.Begin(/*of_rank_0=*/true, kStart);
  EXPECT_EQ(watch.deadline(), std::nullopt);

  SilenceWatch silent(/*judges_hangs=*/true, /*is_python=*/false);
  silent.Begin(/*of_rank_0=*/true, kStart);
  silent.See(Silent());
  EXPECT_TRUE(silent.Look(Silent()).has_value());
}

TEST(SilenceWatchTest, SaysItOnce) {
  SilenceWatch watch(/*judges_hangs=*/true, /*is_python=*/false);
  watch.Begin(/*of_rank_0=*/true, kStart);
  EXPECT_TRUE(watch.Look(Silent()).has_value());
  watch.Begin(/*of_rank_0=*/true, kStart);
  EXPECT_EQ(watch.deadline(), std::nullopt);
}

TEST(SilenceWatchTest, OnlyWhereRank0IsAndHangsAreJudgedAndTheGenerationRuns) {
  SilenceWatch elsewhere(/*judges_hangs=*/true, /*is_python=*/false);
  elsewhere.Begin(/*of_rank_0=*/false, kStart);
  EXPECT_EQ(elsewhere.deadline(), std::nullopt);

  SilenceWatch unjudged(/*judges_hangs=*/false, /*is_python=*/false);
  unjudged.Begin(/*of_rank_0=*/true, kStart);
  EXPECT_EQ(unjudged.deadline(), std::nullopt);

  SilenceWatch over(/*judges_hangs=*/true, /*is_python=*/false);
  over.Begin(/*of_rank_0=*/true, kStart);
  over.End();
  EXPECT_EQ(over.deadline(), std::nullopt);
}

}  // namespace silence_watch_test
}  // namespace ddprun
