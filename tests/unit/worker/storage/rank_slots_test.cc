#include "worker/src/storage/rank_slots.h"

#include <ddp/errors.h>
#include <gtest/gtest.h>

#include <cstddef>
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
