#include "worker/src/checkpoint/state_texts.h"

#include <ddp/errors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddp::internal {
namespace state_texts_test {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::ThrowsMessage;

State StateAtStep(std::int64_t step) {
  State state;
  state.step = step;
  state.epoch = 2;
  state.batch = 5;
  state.user = {{"läuft", "1"}};
  return state;
}

TEST(StateTextsTest, AFileSaysWhereTheTrainingWas) {
  Metadata metadata;
  AddPlace(StateAtStep(7), 4, &metadata);
  EXPECT_THAT(metadata, ElementsAre(Pair("batch", "5"), Pair("epoch", "2"),
                                    Pair("user", R"({"läuft":"1"})"), Pair("world_size", "4")));
  metadata["step"] = "7";
  FoundState found;
  found.path = "/file";
  found.metadata = metadata;
  const State again = StateOf(found);
  EXPECT_EQ(again.step, 7);
  EXPECT_EQ(again.epoch, 2);
  EXPECT_EQ(again.batch, 5);
  EXPECT_EQ(again.world_size, 4);
  EXPECT_THAT(again.user, ElementsAre(Pair("läuft", "1")));
  EXPECT_EQ(again.path, "/file");
}

TEST(StateTextsTest, WhatNoFileCanHoldIsACheckpointError) {
  Metadata metadata;
  EXPECT_THAT([&] { AddPlace(StateAtStep(-1), 1, &metadata); },
              ThrowsMessage<CheckpointError>("a step cannot be negative"));
  State state = StateAtStep(1);
  state.user["name"] = "\xff";
  EXPECT_THAT([&] { AddPlace(state, 1, &metadata); },
              ThrowsMessage<CheckpointError>("State::user has text that is not UTF-8"));
}

}  // namespace state_texts_test
}  // namespace ddp::internal
