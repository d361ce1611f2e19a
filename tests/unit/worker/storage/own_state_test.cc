#include "worker/src/storage/own_state.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace ddp::internal {
namespace own_state_test {

using Generators = std::optional<std::vector<std::string>>;

// Ranks 0 and 1 are on this node, rank 2 is on another one.
Generators Of(std::map<int, LeftGenerator> left, std::vector<std::string> older) {
  return GeneratorsAtStep(
      3, [&](int rank) { return left[rank]; },
      [&](int rank) {
        const auto place = static_cast<std::size_t>(rank);
        return place < older.size() ? older[place] : std::string();
      });
}

TEST(OwnStateTest, WhatIsPackedIsUnpacked) {
  const auto own = OwnState::Unpack(OwnState{"generator", "buffers"}.Packed());
  ASSERT_TRUE(own);
  EXPECT_EQ(own->generator, "generator");
  EXPECT_EQ(own->buffers, "buffers");
  EXPECT_FALSE(OwnState::Unpack(std::nullopt));
  EXPECT_FALSE(OwnState::Unpack("short"));
  EXPECT_FALSE(OwnState::Unpack(OwnState{"generator", ""}.Packed().substr(0, 10)));
}

TEST(OwnStateTest, RanksOfThisNodeHaveThoseOfTheStep) {
  EXPECT_EQ(Of({{0, {"new 0", true}}, {1, {"new 1", true}}}, {"old 0", "old 1", "old 2"}),
            (Generators{{"new 0", "new 1", "old 2"}}));
}

// `older` cannot replace rank 1's generator: the rank has made steps on this node since.
TEST(OwnStateTest, ARankOfThisNodeThatHasNotLeftTheStepHasNone) {
  EXPECT_EQ(Of({{0, {"new 0", true}}, {1, {std::nullopt, true}}}, {"old 0", "old 1", "old 2"}),
            std::nullopt);
}

TEST(OwnStateTest, AnUnknownRankOfAnotherNodeHasNone) {
  EXPECT_EQ(Of({{0, {"new 0", true}}, {1, {"new 1", true}}}, {"old 0", "old 1"}), std::nullopt);
}

}  // namespace own_state_test
}  // namespace ddp::internal
