#include "launcher/connection/place_rotation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <vector>

namespace ddprun {
namespace place_rotation_test {

using testing::ElementsAre;

constexpr TimePoint kLater{std::chrono::hours(1)};

int AfterLoss(PlaceRotation& rotation) {
  RendezvousClient::Lost lost;
  rotation.OnLost(/*ours=*/false, kLater, &lost);
  return rotation.place();
}

TEST(PlaceRotationTest, OfSeveralNoneIsKeptForEverHavingSpokenOnce) {
  PlaceRotation rotation(3, /*several=*/true);
  rotation.OnHeard();
  std::vector<int> places;
  for (int i = 0; i < 5; ++i) places.push_back(AfterLoss(rotation));
  EXPECT_THAT(places, ElementsAre(0, 1, 2, 0, 1)) << "once more, it may have lost the session only";
}

TEST(PlaceRotationTest, TheLeaderIsTriedInTurnWithEachOther) {
  PlaceRotation rotation(4, /*several=*/true);
  rotation.Lead(2);
  EXPECT_EQ(rotation.place(), 2);
  std::vector<int> places;
  for (int i = 0; i < 8; ++i) places.push_back(AfterLoss(rotation));
  EXPECT_THAT(places, ElementsAre(2, 1, 2, 3, 2, 0, 2, 1));
}

TEST(PlaceRotationTest, WhereNobodyLeadsAnyMoreAllAreTriedInTurn) {
  PlaceRotation rotation(3, /*several=*/true);
  rotation.Lead(1);
  rotation.OnHeard();
  rotation.Lead(std::nullopt);
  std::vector<int> places;
  for (int i = 0; i < 4; ++i) places.push_back(AfterLoss(rotation));
  EXPECT_THAT(places, ElementsAre(1, 2, 0, 1));
}

TEST(PlaceRotationTest, APlaceIsSkippedUntilARendezvousIsHeard) {
  PlaceRotation rotation(2, /*several=*/false);
  rotation.Skip();
  EXPECT_EQ(rotation.place(), 1);
  rotation.Skip();
  EXPECT_EQ(rotation.place(), 0);
  rotation.OnHeard();
  rotation.Skip();
  EXPECT_EQ(rotation.place(), 0);
}

// All places of a job accept the same credentials. A single place that denies them may belong to
// another job.
TEST(PlaceRotationTest, OfSeveralOnlyAllInARowDeny) {
  PlaceRotation rotation(3, /*several=*/true);
  rotation.OnHeard();
  std::vector<bool> denied;
  for (int i = 0; i < 3; ++i) {
    RendezvousClient::Lost lost;
    lost.denied = true;
    rotation.OnLost(/*ours=*/false, kLater, &lost);
    denied.push_back(lost.denied);
  }
  EXPECT_THAT(denied, ElementsAre(false, false, true));
}

}  // namespace place_rotation_test
}  // namespace ddprun
