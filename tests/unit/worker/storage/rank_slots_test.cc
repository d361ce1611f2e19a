#include "worker/src/storage/rank_slots.h"

#include <ddp/errors.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace ddp::internal {
namespace rank_slots_test {

using View = RankSlots::View;

TEST(RankSlotsTest, TheLastThreeStepsAreThere) {
  const ddprun::TempDir folder;
  {
    RankSlots slots(folder.path(), 3);
    slots.Put({1, 10}, "ten");
    slots.Put({1, 11}, "eleven");
    slots.Put({1, 12}, "twelve");
    slots.Put({1, 13}, "thirteen");
  }
  const View view(folder.path(), 3);
  EXPECT_EQ(view.Find({1, 13}), "thirteen");
  EXPECT_EQ(view.Find({1, 12}), "twelve");
  EXPECT_EQ(view.Find({1, 11}), "eleven");
  EXPECT_EQ(view.Find({1, 10}), std::nullopt);
  EXPECT_EQ(view.Find({1, 14}), std::nullopt);
}

// One rank may have finished step 10 while another rank dies in its write for step 12: only step 11
// needs both.
TEST(RankSlotsTest, AHalfWrittenStepLeavesTheTwoBefore) {
  std::vector<std::byte> memory(RankPlaces::BytesFor(16));
  RankPlaces places(memory.data(), memory.size());
  places.Put({1, 9}, "nine");
  places.Put({1, 10}, "ten");
  places.Put({1, 11}, "eleven");
  places.Begin({1, 12});
  EXPECT_EQ(places.Find({1, 12}), std::nullopt);
  EXPECT_EQ(places.Find({1, 11}), "eleven");
  EXPECT_EQ(places.Find({1, 10}), "ten");
  EXPECT_EQ(places.Find({1, 9}), std::nullopt);
}

TEST(RankSlotsTest, AStepOfAnotherGenerationIsAnotherStep) {
  const ddprun::TempDir folder;
  RankSlots slots(folder.path(), 0);
  slots.Put({1, 10}, "ten");
  const View view(folder.path(), 0);
  EXPECT_EQ(view.Find({2, 10}), std::nullopt);
  EXPECT_TRUE(view.HasAnyOf(1));
  EXPECT_FALSE(view.HasAnyOf(2));
}

// Generations 5 and 6 both begin with step 16 of generation 4: generation 5 left no newer state
// that the job can use.
TEST(RankSlotsTest, AStepWithWhichTrainingBeginsTwiceIsThereTwice) {
  const ddprun::TempDir folder;
  const auto train = [&](std::int64_t generation) {
    RankSlots slots(folder.path(), 0);
    slots.Keep({4, 16});
    for (const std::int64_t step : {17, 18, 19}) slots.Put({generation, step}, "of that step");
  };
  {
    RankSlots slots(folder.path(), 0);
    slots.Put({4, 15}, "fifteen");
    slots.Put({4, 16}, "sixteen");
    slots.Put({4, 17}, "seventeen");
  }
  train(5);
  EXPECT_EQ(View(folder.path(), 0).Find({4, 16}), "sixteen");
  train(6);
  const View view(folder.path(), 0);
  EXPECT_EQ(view.Find({4, 16}), "sixteen");
  EXPECT_EQ(view.Find({4, 15}), "fifteen") << "another node may have the state of that step alone";
  EXPECT_EQ(view.Find({4, 17}), std::nullopt);
  EXPECT_FALSE(view.HasAnyOf(4)) << "the rank has made no step of it since";
}

TEST(RankSlotsTest, TheStepOfALaterGenerationIsKeptInPlaceOfIt) {
  std::vector<std::byte> memory(RankPlaces::BytesFor(16));
  RankPlaces places(memory.data(), memory.size());
  for (const std::int64_t step : {15, 16}) places.Put({4, step}, "of 4");
  places.Keep({4, 16});
  for (const std::int64_t step : {17, 18, 19}) places.Put({5, step}, "of 5");
  places.Keep({5, 18});
  for (const std::int64_t step : {19, 20, 21}) places.Put({6, step}, "of 6");
  EXPECT_EQ(places.Find({5, 18}), "of 5");
  EXPECT_EQ(places.Find({5, 17}), "of 5");
  EXPECT_EQ(places.Find({5, 19}), std::nullopt) << "it was made again";
  EXPECT_EQ(places.Find({4, 16}), std::nullopt);
}

TEST(RankSlotsTest, AHalfWrittenStepIsNotKept) {
  std::vector<std::byte> memory(RankPlaces::BytesFor(16));
  RankPlaces places(memory.data(), memory.size());
  places.Put({4, 15}, "fifteen");
  places.Begin({4, 16});
  places.Keep({4, 16});
  for (const std::int64_t step : {16, 17, 18}) places.Put({5, step}, "of 5");
  EXPECT_EQ(places.Find({4, 15}), "fifteen");
  EXPECT_EQ(places.Find({4, 16}), std::nullopt);
}

TEST(RankSlotsTest, ARankThatHasNeverBeenHereKeepsNothing) {
  const ddprun::TempDir folder;
  RankSlots(folder.path(), 0).Keep({0, 1});
  EXPECT_FALSE(View(folder.path(), 0).HasAnyOf(0));
}

TEST(RankSlotsTest, RanksHaveFilesOfTheirOwnWhichOutliveThem) {
  const ddprun::TempDir folder;
  RankSlots(folder.path(), 0).Put({0, 1}, "of rank 0");
  RankSlots(folder.path(), 1).Put({0, 1}, "of rank 1");
  RankSlots(folder.path(), 0).Put({0, 2}, "of rank 0");
  EXPECT_EQ(View(folder.path(), 0).Find({0, 1}), "of rank 0") << "written by the one before";
  EXPECT_EQ(View(folder.path(), 1).Find({0, 1}), "of rank 1");
  EXPECT_EQ(View(folder.path(), 2).Find({0, 1}), std::nullopt);
}

TEST(RankSlotsTest, WhatDoesNotFitGetsANewFile) {
  const ddprun::TempDir folder;
  RankSlots slots(folder.path(), 0);
  slots.Put({0, 1}, "short");
  const View before(folder.path(), 0);
  slots.Put({0, 2}, std::string(100'000, 'x'));
  EXPECT_EQ(before.Find({0, 1}), "short") << "who reads is not cut off";
  EXPECT_EQ(View(folder.path(), 0).Find({0, 2}), std::string(100'000, 'x'));
  EXPECT_EQ(View(folder.path(), 0).Find({0, 1}), std::nullopt);
}

TEST(RankSlotsTest, AFolderThatIsNotThereIsAnError) {
  RankSlots slots("/nonexistent", 0);
  EXPECT_THROW(slots.Put({0, 1}, "x"), CheckpointError);
}

}  // namespace rank_slots_test
}  // namespace ddp::internal
